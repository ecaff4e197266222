//go:build unix

package javakcl

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestKCL3Mode_isRefusedAtTheStart: a Go worker that meets a fleet of KCL 3 in its own mode ends at once, and has touched nothing.
func TestKCL3Mode_isRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, kcl3, 4)
	end := f.produce()
	f.startJava("java-1")
	f.read("all shards read", 2*time.Minute)
	w := f.startGo("go-1")
	said, in := f.exits(w, 20*time.Second)
	f.say("the Go worker ended after %v: %s", in, said)
	f.wantRefusal(w, said)
	if n := f.history.writers()["go-1"]; n != 0 {
		t.Errorf("the Go worker wrote %d times into the lease table, want never", n)
	}
	end()
	f.delivered(time.Minute)
	f.finish()
}

// TestKCL3Mode_endsAGoWorkerWhenTheFleetChangesToIt: a fleet in its 2.x-compatible mode with a Go worker in it is flipped as KCL
// does it, by the row's cv. The Go worker gives up what it holds, and the Java workers go on with it.
func TestKCL3Mode_endsAGoWorkerWhenTheFleetChangesToIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, kcl3as2, 6)
	end := f.produce()
	f.startJavas("java-1", "java-2")
	w := f.startGo("go-1")
	f.until("all three read", 4*time.Minute, func() bool {
		s := f.history.shares()
		return s["java-1"] > 0 && s["java-2"] > 0 && s["go-1"] > 0
	})
	f.flip("CLIENT_VERSION_UPGRADE_FROM_2X", "CLIENT_VERSION_3X_WITH_ROLLBACK")
	flipped := time.Now()
	said, _ := f.exits(w, 90*time.Second)
	f.say("the Go worker ended %v after the flip: %s", time.Since(flipped).Round(100*time.Millisecond), said)
	f.wantRefusal(w, said)
	if held := f.history.keysOf("go-1"); len(held) > 0 {
		t.Errorf("the Go worker still owns %v", held)
	}
	for _, m := range f.history.movesSince(flipped) {
		if m.to == "go-1" {
			t.Errorf("taken after the flip: %s", m)
		}
	}
	f.until("a leader of the Java workers has the lock of 3.x mode", 3*time.Minute, func() bool { return f.row("Leader") != nil })
	f.read("all shards read by Java, in 3.x mode", time.Minute)
	again := f.startGo("go-2")
	said, _ = f.exits(again, 20*time.Second)
	f.wantRefusal(again, said)
	end()
	f.delivered(time.Minute)
	f.finish()
}

// row reads a row of the lease table, nil if there is none.
func (f *fleet) row(key string) map[string]types.AttributeValue {
	f.t.Helper()
	out, err := f.dynamodb.GetItem(f.t.Context(), &dynamodb.GetItemInput{
		TableName: &f.app, Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Item
}

// flip changes cv as KCL's own ready monitor does.
func (f *fleet) flip(from, to string) {
	f.t.Helper()
	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	_, err := f.dynamodb.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &f.app, Key: map[string]types.AttributeValue{"leaseKey": s("Migration3.0")},
		UpdateExpression: aws.String("SET cv = :to"), ConditionExpression: aws.String("cv = :from"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":from": s(from), ":to": s(to)},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.say("Migration3.0 now says %s", to)
}

// wantRefusal wants a worker to have said why it ended, and what to do.
func (f *fleet) wantRefusal(w *worker, said string) {
	f.t.Helper()
	for _, want := range []string{"worker ended:", "KCL 3.x mode", "CLIENT_VERSION_3X", "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X"} {
		if !strings.Contains(said, want) {
			f.t.Errorf("the last line of %s's log is %q, want %q in it", w.id, said, want)
		}
	}
}
