package sim_test

import (
	"flag"
	"strings"
	"testing"
)

// A flag that is mistyped must not look like a run without a violation. Not parallel: it sets the flags.
func TestFlags_refuseWhatWouldRunNothingOrSomethingElse(t *testing.T) {
	for text, want := range map[string]string{
		"-seed 3 -schedules 1 -faults abc": "-faults is",
		"-seed 3 -schedules 1 -faults 1;2": "-faults is",
		"-seed 3 -schedules 1 -faults -1":  "-faults is",
		"-seed 3 -schedules 1 -faults 999": "-faults names 999",
		"-schedules -3":                    "-schedules is -3",
		"-hours -1":                        "-hours is -1",
		"-bubbles 0":                       "-bubbles is 0",
		"-lasts -5s":                       "-lasts is -5s",
		"-kind nonsense":                   "-kind is",
		"-seed 3 -schedules 1 -faults 0":   "",
	} {
		words := strings.Fields(text)
		var undo []func()
		for i := 0; i < len(words); i += 2 {
			f := flag.Lookup(words[i][1:])
			before := f.Value.String()
			undo = append(undo, func() { _ = f.Value.Set(before) })
			if err := f.Value.Set(words[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkFlags(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
		for _, f := range undo {
			f()
		}
	}
}
