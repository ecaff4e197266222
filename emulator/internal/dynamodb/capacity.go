package dynamodb

import (
	"math"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// writeUnits is the price of writing an item of that many bytes: one unit for each begun kilobyte, and never less than one.
func writeUnits(bytes int) float64 { return math.Max(1, math.Ceil(float64(bytes)/1024)) }

// readUnits is the price of reading that many bytes: one unit for each begun 4 KB, half of it if the read need not be consistent.
func readUnits(bytes int, consistent bool) float64 {
	n := math.Max(1, math.Ceil(float64(bytes)/4096))
	if consistent {
		return n
	}
	return n / 2
}

// burst is how many seconds of unused capacity the service saves.
const burst = 300

// What a new on-demand table sustains.
const (
	onDemandReads  = 12000
	onDemandWrites = 4000
)

// throughput is what a table or index was given, in units a second, and what is left of it.
type throughput struct {
	read, write   int // as provisioned; 0 on demand
	reads, writes bucket
}

// bucket holds the units that may be used at once. A request is let through while any is left and may overdraw it, so that one
// larger than the rate is possible at all.
type bucket struct {
	units float64
	at    time.Time
}

func (b *bucket) refill(rate float64, now time.Time) {
	if b.at.IsZero() {
		b.units, b.at = rate, now // a new table has saved nothing yet
		return
	}
	b.units = math.Min(rate*burst, b.units+rate*now.Sub(b.at).Seconds())
	b.at = now
}

// admits brings both buckets up to date and tells whether a request may use them.
func (t *throughput) admits(now time.Time, reads, writes float64) bool {
	readRate, writeRate := float64(t.read), float64(t.write)
	if t.read == 0 {
		readRate, writeRate = onDemandReads, onDemandWrites
	}
	t.reads.refill(readRate, now)
	t.writes.refill(writeRate, now)
	return (reads == 0 || t.reads.units > 0) && (writes == 0 || t.writes.units > 0)
}

// cost is the price of a request, by place.
type cost struct {
	read, write float64             // of the table
	indexes     map[*index]*float64 // of the indexes, reads or writes
}

func (k *cost) addIndex(x *index, n float64) {
	if n == 0 {
		return
	}
	if k.indexes == nil {
		k.indexes = map[*index]*float64{}
	}
	if k.indexes[x] == nil {
		k.indexes[x] = new(float64)
	}
	*k.indexes[x] += n
}

func (k *cost) add(o cost) {
	k.read += o.read
	k.write += o.write
	for x, n := range o.indexes {
		k.addIndex(x, *n)
	}
}

// times multiplies the price, as transactions do.
func (k cost) times(n float64) cost {
	var out cost
	for range int(n) {
		out.add(k)
	}
	return out
}

func (k cost) inIndexes() float64 {
	sum := 0.0
	for _, n := range k.indexes {
		sum += *n
	}
	return sum
}

// charge takes the price from what the table and its indexes have left, all of it or, with an error, nothing. writing tells
// what the price in indexes is for.
func (d *DynamoDB) charge(c *call, t *table, k cost, writing bool) *wire.Error {
	if d.Limits {
		ok := t.throughput.admits(c.now, k.read, k.write)
		for x, n := range k.indexes {
			if writing {
				ok = x.throughput.admits(c.now, 0, *n) && ok
			} else {
				ok = x.throughput.admits(c.now, *n, 0) && ok
			}
		}
		if !ok && t.onDemand {
			return wire.Errorf("ThrottlingException", "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly.")
		}
		if !ok {
			return wire.Errorf("ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API.")
		}
		t.throughput.reads.units -= k.read
		t.throughput.writes.units -= k.write
	}
	for x, n := range k.indexes {
		if writing {
			x.throughput.writes.units -= *n
			c.used.write += *n
		} else {
			x.throughput.reads.units -= *n
			c.used.read += *n
		}
	}
	c.used.read += k.read
	c.used.write += k.write
	return nil
}

// consumed puts the price into an answer, as ReturnConsumedCapacity asks.
func consumed(t *table, k cost, wanted string) (output, bool) {
	if wanted == "NONE" {
		return nil, false
	}
	inTable := k.read + k.write
	out := output{"TableName": t.name, "CapacityUnits": inTable + k.inIndexes()}
	if wanted == "INDEXES" {
		out["Table"] = output{"CapacityUnits": inTable}
		if len(k.indexes) > 0 {
			byName := output{}
			for x, n := range k.indexes {
				byName[x.name] = output{"CapacityUnits": *n}
			}
			out["GlobalSecondaryIndexes"] = byName
		}
	}
	return out, true
}

func capacityWanted(p *params) string {
	return p.enum("ReturnConsumedCapacity", "NONE", "TOTAL", "INDEXES")
}
