package shardlease_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// Two ways in which user code does not finish.
func untilCancelled(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() }
func forEver(_ context.Context, release <-chan struct{})    { <-release }

var whatTheProcessorDoes = []handoffState{
	{
		name: "ShutdownRequested does not return before it has to", workers: 1, befall: func(*inHandoff) {}, within: stuckHandoff + oneTake,
		before: func(s *inHandoff) { s.manners.shutdown = untilCancelled },
	},
	{
		name: "ShutdownRequested never returns", workers: 1, befall: func(*inHandoff) {}, within: stuckHandoff + oneTake,
		before: func(s *inHandoff) { s.manners.shutdown = forEver },
	},
	{
		name: "ProcessRecords never returns", workers: 1, late: 0.5, befall: func(s *inHandoff) { s.hang() }, within: stuckHandoff + oneTake,
	},
	{ // nobody else would take it while its owner renews it, so that gives it up: see the document
		name: "ShutdownRequested never returns and the asker dies", workers: 2, late: 1, befall: func(s *inHandoff) { s.asker.Kill() },
		before: func(s *inHandoff) { s.manners.shutdown = forEver }, within: stuckHandoff + nobodyDelivers,
	},
	{
		name: "ShutdownRequested never returns and the owner dies", workers: 2, late: 1, befall: func(s *inHandoff) { s.owner.Kill() },
		before: func(s *inHandoff) { s.manners.shutdown = forEver }, within: nobodyDelivers,
	},
	{
		name: "the new owner dies before it is initialised", workers: 2, late: 4, befall: func(s *inHandoff) {
			s.asker.Kill()
			s.watch(s.key)
		}, before: func(s *inHandoff) { s.manners.initialise = untilCancelled }, within: asAnyCrash,
	},
	{
		name: "the new owner stops while its Initialize fails", workers: 2, late: 4, befall: func(s *inHandoff) {
			s.watch(s.key)
			s.stop(s.asker)
		}, before: func(s *inHandoff) { s.manners.initialise = func(context.Context, <-chan struct{}) {} }, within: nobodyDelivers,
	},
	{ // user code has until the end of ShutdownGrace
		name: "the new owner stops while its Initialize does not return", workers: 2, late: 4, befall: func(s *inHandoff) {
			s.watch(s.key)
			_ = s.asker.Stop() // it says so
		}, before: func(s *inHandoff) { s.manners.initialise = untilCancelled }, within: 25*time.Second + oneTake,
	},
}

// hang lets ProcessRecords never return from its next call on, with those that hold a lease now.
func (s *inHandoff) hang() {
	s.manners.mu.Lock()
	defer s.manners.mu.Unlock()
	s.manners.process = forEver
}

// mannered is a processor that behaves as it is told to.
type mannered struct {
	processor.RecordProcessor
	m      *manners
	f      *fleettest.Fleet
	worker string
	asker  bool
}

func (p *mannered) Initialize(ctx context.Context, in processor.InitializationInput) error {
	p.m.mu.Lock()
	initialise := p.m.initialise
	p.m.mu.Unlock()
	if initialise != nil && p.asker {
		initialise(ctx, p.m.release)
		return errors.New("not initialised")
	}
	return p.RecordProcessor.Initialize(ctx, in)
}

func (p *mannered) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	p.m.mu.Lock()
	process := p.m.process
	p.m.mu.Unlock()
	if process != nil && !p.asker {
		process(ctx, p.m.release)
		return context.Cause(ctx)
	}
	if p.m.seldom {
		p.f.Audit.Deliver(p.worker, in)
		return nil
	}
	return p.RecordProcessor.ProcessRecords(ctx, in)
}

func (p *mannered) ShutdownRequested(ctx context.Context, in processor.ShutdownRequestedInput) error {
	p.m.mu.Lock()
	shutdown := p.m.shutdown
	p.m.mu.Unlock()
	if shutdown != nil && !p.asker {
		shutdown(ctx, p.m.release)
	}
	return p.RecordProcessor.ShutdownRequested(ctx, in)
}

// In these states KCL 2 and 3 write what they write; see internal/golden for the requests as they were recorded.
var whatJavaWrites = []handoffState{
	{
		// It leaves checkpointOwner and handoffTo behind. Whoever dies, others take the row.
		name: "KCL 2 takes the row under the mark, and dies", workers: 3, late: 0.3, befall: func(s *inHandoff) {
			s.write("SET leaseOwner = :java ADD leaseCounter :one, ownerSwitchesSinceCheckpoint :one", ":java", "java", ":one", 1)
			for range 4 {
				time.Sleep(3 * time.Second)
				s.write("ADD leaseCounter :one", ":one", 1)
			}
			s.watch(s.key)
		}, within: asAnyCrash, fenced: true,
	},
	{
		name: "KCL 2 goes on in the dead owner's name, and dies", workers: 2, late: 0.3, befall: func(s *inHandoff) {
			s.owner.Kill()
			s.write("ADD leaseCounter :one", ":one", 1)
		}, within: nobodyDelivers,
	},
	{
		name: "a mark names the owner as its own successor", workers: 2, befall: func(s *inHandoff) {
			s.write("SET leaseOwner = :owner, handoffTo = :owner, checkpointOwner = :owner", ":owner", s.owner.ID)
		}, within: nobodyDelivers,
	},
	{
		name: "KCL 3 names the owner as its own successor", workers: 2, befall: func(s *inHandoff) {
			s.write("SET leaseOwner = :owner, checkpointOwner = :owner REMOVE handoffTo", ":owner", s.owner.ID)
		}, within: nobodyDelivers, fenced: true,
	},
	{
		name: "KCL 3 names another worker as the successor", workers: 2, befall: func(s *inHandoff) {
			s.write("SET leaseOwner = :other, checkpointOwner = :owner REMOVE handoffTo", ":owner", s.owner.ID, ":other", s.others[0].ID)
		}, within: asAnyCrash, fenced: true,
	},
	{
		name: "KCL 3 names a worker that is gone as the successor", workers: 2, befall: func(s *inHandoff) {
			s.write("SET leaseOwner = :other, checkpointOwner = :owner REMOVE handoffTo", ":owner", s.owner.ID, ":other", "gone")
		}, within: asAnyCrash, fenced: true,
	},
}

// write updates the row as a foreign worker would: by an expression, and its values by name.
func (s *inHandoff) write(update string, values ...any) {
	s.T.Helper()
	byName := map[string]types.AttributeValue{}
	for i := 0; i < len(values); i += 2 {
		switch v := values[i+1].(type) {
		case string:
			byName[values[i].(string)] = &types.AttributeValueMemberS{Value: v}
		case int:
			byName[values[i].(string)] = &types.AttributeValueMemberN{Value: strconv.Itoa(v)}
		}
	}
	if _, err := s.DynamoDB.UpdateItem(s.T.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(fleettest.App), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: s.key}},
		UpdateExpression: &update, ExpressionAttributeValues: byName,
	}); err != nil {
		s.T.Fatal(err)
	}
}
