package sourcetest_test

import (
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/sourcetest"
)

func TestEmulator_behavesAsKinesisDoes(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, emulator.New().AWSConfig(), sourcetest.Everything())
}

func TestEmulator_behavesAsKinesisDoesWhenControlCallsTakeTime(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, emulator.New(emulator.WithControlDelay(30*time.Millisecond)).AWSConfig(), sourcetest.Everything())
}
