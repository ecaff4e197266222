package containers

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestEngine_isMissingOnceTheContextIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"Engine":        Engine(ctx),
		"LocalStack":    second(LocalStack(ctx, Settings{})),
		"DynamoDBLocal": second(DynamoDBLocal(ctx, Settings{})),
	} {
		if !errors.Is(err, ErrNoEngine) {
			t.Errorf("%s returned %v, want %v and its cause", name, err, ErrNoEngine)
		}
	}
}

func second(_ *Server, err error) error { return err }

func TestWithoutPanic_makesAPanicAnError(t *testing.T) {
	t.Parallel()
	err := withoutPanic(func() error { panic("rootless Docker not found") })
	if err == nil || !strings.Contains(err.Error(), "rootless Docker not found") {
		t.Errorf("got %v, want what the panic said", err)
	}
}

func TestRequired_takesYesAndNo(t *testing.T) {
	for value, want := range map[string]bool{"": false, "1": true, "true": true, "0": false, "false": false} {
		t.Setenv(RequireEnv, value)
		if got, err := Required(); got != want || err != nil {
			t.Errorf("%s=%q: got %v, %v, want %v", RequireEnv, value, got, err, want)
		}
	}
	t.Setenv(RequireEnv, "perhaps")
	if _, err := Required(); err == nil || !strings.Contains(err.Error(), `"perhaps"`) {
		t.Errorf("%s=perhaps: got %v, want an error that names the value", RequireEnv, err)
	}
}
