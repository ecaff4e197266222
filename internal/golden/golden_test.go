package golden

import "testing"

func TestFiles_holdWhatTheirDescriptionSays(t *testing.T) {
	t.Parallel()
	for what, n := range map[string][2]int{
		"rows": {len(Rows(t)), 419}, "requests": {len(Requests(t)), 112}, "traces": {len(Traces(t)), 353},
	} {
		if n[0] != n[1] {
			t.Errorf("%d %s, want %d", n[0], what, n[1])
		}
	}
	for _, r := range Requests(t) {
		if r.Target == "" || r.Status == 0 || len(r.Body) == 0 {
			t.Errorf("request %q lacks its target, status or body", r.Purpose)
		}
	}
}
