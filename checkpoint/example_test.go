package checkpoint_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlease/shardlease/checkpoint"
)

// row stands for the lease table.
type row struct{}

func (row) WriteCheckpoint(_ context.Context, at checkpoint.ExtendedSequenceNumber) error {
	fmt.Println("row:", at)
	return nil
}

func (row) WritePending(_ context.Context, p checkpoint.Pending) error {
	fmt.Printf("row: pending %s with %q\n", p.At, p.State)
	return nil
}

func record(number string) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: number}
}

// Goroutines that finish out of order acknowledge as they finish; one that is late has nothing to add.
func ExampleErrOutOfRange() {
	tracker := checkpoint.NewTracker(row{}, checkpoint.TrimHorizon, checkpoint.TrackerOptions{})
	tracker.BeginBatch(record("30")) // the consumer does that; what follows is user code
	c := tracker.Checkpointer()
	for _, finished := range []string{"20", "10", "30"} {
		err := c.CheckpointAt(context.Background(), record(finished))
		switch {
		case errors.Is(err, checkpoint.ErrOutOfRange):
			fmt.Println("late:", finished)
		case err != nil:
			fmt.Println(err)
			return
		}
	}
	// Output:
	// row: 20
	// late: 10
	// row: 30
}

// In two phases: what was prepared is found by the next owner if this process dies before it commits.
func ExampleCheckpointer_Prepare() {
	tracker := checkpoint.NewTracker(row{}, checkpoint.TrimHorizon, checkpoint.TrackerOptions{})
	tracker.BeginBatch(record("30")) // the consumer does that; what follows is user code
	c := tracker.Checkpointer()
	prepared, err := c.Prepare(context.Background(), record("30"), []byte("file-17"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("publishing", string(prepared.State()))
	if err := prepared.Commit(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// row: pending 30 with "file-17"
	// publishing file-17
	// row: 30
}
