package leases

import (
	"testing"

	"github.com/shardlease/shardlease/config"
)

func TestKeepFinished_coversADecisionAndALateRequest(t *testing.T) {
	t.Parallel()
	const fast, slow = 1.025, 0.975 // clocks, as docs/guarantees.md assumes them
	keep := config.Default("app", "orders").Complete().Cleanup.KeepFinished
	if least := (DecisionLife + RequestLife).Seconds() * fast / slow; keep.Seconds() < least {
		t.Errorf("Cleanup.KeepFinished is %v by default, want at least %.1fs", keep, least)
	}
}
