package kinesis

import (
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Limits of a shard, per second.
const (
	shardPutRecords = 1000
	shardPutBytes   = 1 << 20
	shardGetCalls   = 5
	shardGetBytes   = 2 << 20
	// maxPageBytes is what one GetRecords gives. A shard saves up one second, so such a page stops its readers for 4 s.
	maxPageBytes = 10 << 20
)

// bucket is a token bucket. It may go into debt: a large page stops a shard's readers until it is paid for.
type bucket struct {
	tokens float64
	at     time.Time
}

// allow takes one token from the bucket of this name, which fills at rate a second up to burst, and tells whether there
// was one. Without Limits there always is.
func (k *Service) allow(name string, rate, burst float64) bool {
	if !k.cfg.Limits {
		return true
	}
	b := k.bucket(name, rate, burst)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// spend takes cost, into debt if need be.
func (k *Service) spend(name string, rate, burst, cost float64) {
	if k.cfg.Limits {
		k.bucket(name, rate, burst).tokens -= cost
	}
}

func (k *Service) bucket(name string, rate, burst float64) *bucket {
	now := time.Now()
	b := k.rates[name]
	if b == nil {
		b = &bucket{burst, now}
		k.rates[name] = b
	}
	b.tokens = min(burst, b.tokens+rate*now.Sub(b.at).Seconds())
	b.at = now
	return b
}

// rate refuses a control call beyond perSecond; scope is what the rate is counted by, "" for the account.
func (k *Service) rate(operation, scope string, perSecond float64) *wire.Error {
	if k.allow(operation+" "+scope, perSecond, perSecond) {
		return nil
	}
	if scope == "" {
		scope = "account " + Account
	}
	return wire.Errorf("LimitExceededException", "Rate exceeded for %s on %s: %g calls a second", operation, scope, perSecond)
}

func throttled(x *shard) *wire.Error {
	return wire.Errorf("ProvisionedThroughputExceededException", "Rate exceeded for shard %s in stream %s under account %s.", x.id, x.stream.name, Account)
}

// admitPut tells whether a shard takes another record of this size now.
func (k *Service) admitPut(x *shard, size int) bool {
	if !k.cfg.Limits {
		return true
	}
	name := x.stream.arn + x.id
	if k.bucket("put bytes "+name, shardPutBytes, shardPutBytes).tokens < float64(size) {
		return false
	}
	if !k.allow("put records "+name, shardPutRecords, shardPutRecords) {
		return false
	}
	k.spend("put bytes "+name, shardPutBytes, shardPutBytes, float64(size))
	return true
}

// admitGet tells whether a shard gives another page now; chargeGet then pays for it.
func (k *Service) admitGet(x *shard) bool {
	if !k.cfg.Limits {
		return true
	}
	name := x.stream.arn + x.id
	return k.allow("get bytes "+name, shardGetBytes, shardGetBytes) && k.allow("get calls "+name, shardGetCalls, shardGetCalls)
}

func (k *Service) chargeGet(x *shard, records []record) {
	if !k.cfg.Limits {
		return
	}
	size := 0
	for i := range records {
		size += records[i].size()
	}
	k.spend("get bytes "+x.stream.arn+x.id, shardGetBytes, shardGetBytes, float64(size))
}
