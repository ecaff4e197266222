package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/internal/loop"
)

// CleanupInterval is how often the demo's leader looks for rows that may go.
const CleanupInterval = 2 * time.Second

const (
	// keepFinished is how long they stay at least: the demo's requests do not leave the machine.
	keepFinished = time.Second
	// settleLimit is how long the rows of finished shards may take to go: the leader, or who is elected in the place of a
	// dead one, must see that the children have begun, and make a pass.
	settleLimit = 10 * time.Second
	settleLook  = 100 * time.Millisecond
)

// inventory compares the lease table with the stream.
type inventory struct {
	rows, open []string // lease keys and shard ids, in order
}

// left are the rows of shards that are not open any more.
func (i inventory) left() []string { return without(i.rows, i.open) }

// missing are the open shards without a row: nobody reads them.
func (i inventory) missing() []string { return without(i.open, i.rows) }

func without(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(these, s) })
}

func (i inventory) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "  rows %d, open shards %d\n", len(i.rows), len(i.open))
	if left := i.left(); len(left) > 0 {
		_, _ = fmt.Fprintf(w, "    left for %s: the row of a finished shard stays until all of its children have a checkpoint, and is looked at every %v\n", list(left), CleanupInterval)
	}
	if missing := i.missing(); len(missing) > 0 {
		_, _ = fmt.Fprintf(w, "    none for %s, though open\n", list(missing))
	}
}

// settle waits, but not for ever, until the lease table has the rows of all open shards and no others, and returns what it
// has then. The fleet must be running.
func settle(ctx context.Context, table *dynamodb.Client, r *resharder) (inventory, error) {
	began := r.board.now()
	for {
		i, err := take(ctx, table, r)
		if err != nil {
			return inventory{}, err
		}
		same := len(i.left()) == 0 && len(i.missing()) == 0
		if same || r.board.now()-began >= settleLimit {
			r.board.say("the lease table has %d rows for %d open shards", len(i.rows), len(i.open))
			return i, nil
		}
		if err := loop.ClockOf(ctx).Sleep(ctx, settleLook); err != nil {
			return inventory{}, err
		}
	}
}

// take reads both.
func take(ctx context.Context, table *dynamodb.Client, r *resharder) (inventory, error) {
	open, err := r.open(ctx)
	if err != nil {
		return inventory{}, err
	}
	i := inventory{open: ids(open)}
	slices.Sort(i.open)
	pages := dynamodb.NewScanPaginator(table, &dynamodb.ScanInput{
		TableName: aws.String(app), ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("leaseKey"),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return inventory{}, fmt.Errorf("count the rows of lease table %s: %w", app, err)
		}
		for _, item := range page.Items {
			if key, ok := item["leaseKey"].(*types.AttributeValueMemberS); ok {
				i.rows = append(i.rows, key.Value)
			}
		}
	}
	slices.Sort(i.rows)
	return i, nil
}
