package kinesis

import (
	"fmt"
	"strconv"
	"time"
)

// A sequence number has 56 digits, as the service's do: a leading 49, 20 digits of the stream's creation (so that the
// numbers of a stream made anew go on rising and those of another are recognised), 14 digits of the stream's own count,
// and 20 digits of the shard, so that neighbours in a shard do not differ by one. All order within a stream is that of
// the count, which shards, at birth and at their end, draw from too.
const (
	sequenceDigits = 56
	countDigits    = 14
	countAt        = 22
	tailAt         = countAt + countDigits
)

func sequencePrefix(created time.Time) string { return fmt.Sprintf("49%020d", created.UnixNano()) }

// sequenceTail ends in 2 like the service's, a version.
func sequenceTail(shard int) string { return fmt.Sprintf("%019d2", shard) }

// appendSequence writes the number with this count in the shard.
func (x *shard) appendSequence(to []byte, count uint64) []byte {
	to = append(to, x.stream.prefix...)
	var digits [countDigits]byte
	for i := countDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + count%10)
		count /= 10
	}
	to = append(to, digits[:]...)
	return append(to, x.tail...)
}

func (x *shard) sequence(count uint64) string {
	return string(x.appendSequence(make([]byte, 0, sequenceDigits), count))
}

// parseSequence finds the place of a sequence number in the shard: from is the least count that is at or (with after)
// behind it. It fails for a number outside of what the shard has had so far.
func (x *shard) parseSequence(number string, after bool) (from uint64, ok bool) {
	if len(number) != sequenceDigits || number[:countAt] != x.stream.prefix {
		return 0, false
	}
	for i := countAt; i < len(number); i++ {
		if number[i] < '0' || number[i] > '9' {
			return 0, false
		}
	}
	count, err := strconv.ParseUint(number[countAt:tailAt], 10, 64)
	if err != nil || count < x.start || count > x.stream.count || x.closed() && count > x.end {
		return 0, false
	}
	// A number between two of ours is good as well.
	if tail := number[tailAt:]; tail > x.tail || after && tail == x.tail {
		count++
	}
	return count, true
}
