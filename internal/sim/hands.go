package sim

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// hands are goroutines that make requests for others. The SDK's stack is deep; a library that makes most requests on goroutines of
// their own would spend an eighth of a simulation's time on copying stacks that grow.
type hands struct {
	mu   sync.Mutex
	idle []*hand
	all  sync.WaitGroup
}

type hand struct {
	work chan func()
	done chan struct{}
}

func (h *hands) take() *hand {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.idle); n > 0 {
		one := h.idle[n-1]
		h.idle = h.idle[:n-1]
		return one
	}
	one := &hand{work: make(chan func()), done: make(chan struct{})}
	h.all.Go(func() {
		for f := range one.work {
			f()
			one.done <- struct{}{}
		}
	})
	return one
}

func (h *hands) put(one *hand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = append(h.idle, one)
}

// end ends all goroutines; nobody may make requests any more.
func (h *hands) end() {
	for _, one := range h.idle {
		close(one.work)
	}
	h.all.Wait()
}

// lend makes one request, and waits for it.
func lend[T any](h *hands, f func() (T, error)) (out T, err error) {
	one := h.take()
	one.work <- func() { out, err = f() }
	<-one.done
	h.put(one)
	return out, err
}

// dynamoDB is a client whose frequent requests others make.
type dynamoDB struct {
	*dynamodb.Client
	hands *hands
}

func (c dynamoDB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return lend(c.hands, func() (*dynamodb.UpdateItemOutput, error) { return c.Client.UpdateItem(ctx, in, o...) })
}

func (c dynamoDB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return lend(c.hands, func() (*dynamodb.GetItemOutput, error) { return c.Client.GetItem(ctx, in, o...) })
}

func (c dynamoDB) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return lend(c.hands, func() (*dynamodb.ScanOutput, error) { return c.Client.Scan(ctx, in, o...) })
}

// kinesisClient is the same for Kinesis.
type kinesisClient struct {
	*kinesis.Client
	hands *hands
}

func (c kinesisClient) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, o ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	return lend(c.hands, func() (*kinesis.GetRecordsOutput, error) { return c.Client.GetRecords(ctx, in, o...) })
}
