package loop_test

import (
	"context"
	"testing"

	"github.com/shardlease/shardlease/internal/loop"
)

type nameKey struct{}

func TestRoot_hasTheValuesOfTheRootedOneAndNoEnd(t *testing.T) {
	t.Parallel()
	rooted, end := context.WithCancel(loop.Rooted(context.WithValue(t.Context(), nameKey{}, "root")))
	request := context.WithValue(rooted, nameKey{}, "request")
	end()
	root := loop.Root(request)
	if got := root.Value(nameKey{}); got != "root" || root.Err() != nil || root.Done() != nil {
		t.Errorf("a root with value %v, error %v", got, root.Err())
	}
	if got := loop.Root(context.WithValue(t.Context(), nameKey{}, "alone")).Value(nameKey{}); got != "alone" {
		t.Errorf("without a rooted one the value is %v", got)
	}
}
