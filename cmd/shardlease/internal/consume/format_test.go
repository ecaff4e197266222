package consume

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/shardlease/shardlease/processor"
)

func TestAppendRecord_printsOneLineThatSaysHowDataIsWritten(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.FixedZone("elsewhere", 3600))
	record := func(sub int64, key, data string) processor.Record {
		return processor.Record{SequenceNumber: "495", SubSequenceNumber: sub, PartitionKey: key, ApproximateArrival: at, Data: []byte(data)}
	}
	failed := record(0, "k", "x")
	failed.Err = errors.New("its MD5 sum is wrong")
	const head = `{"shard":"shardId-1","sequence":"495",`
	for name, c := range map[string]struct {
		format Format
		record processor.Record
		want   string
	}{
		"text":               {JSON, record(0, "k", `{"n":1}`), head + `"key":"k","arrival":"2026-03-04T04:06:07.089Z","data":"{\"n\":1}"}` + "\n"},
		"inside aggregate":   {JSON, record(3, "k", "x"), head + `"sub":3,"key":"k","arrival":"2026-03-04T04:06:07.089Z","data":"x"}` + "\n"},
		"empty data":         {JSON, record(0, "k", ""), head + `"key":"k","arrival":"2026-03-04T04:06:07.089Z","data":""}` + "\n"},
		"not UTF-8":          {JSON, record(0, "k", "\xff\x00"), head + `"key":"k","arrival":"2026-03-04T04:06:07.089Z","data_base64":"/wA="}` + "\n"},
		"characters of HTML": {JSON, record(0, "<k>", "a&b\n"), head + `"key":"<k>","arrival":"2026-03-04T04:06:07.089Z","data":"a&b\n"}` + "\n"},
		"damaged aggregate":  {JSON, failed, head + `"key":"k","arrival":"2026-03-04T04:06:07.089Z","data":"x","error":"its MD5 sum is wrong"}` + "\n"},
		"data alone":         {Data, record(0, "k", "\xff\x00"), "\xff\x00\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := appendRecord(&b, c.format, origin{shard: "shardId-1"}, c.record); err != nil || b.String() != c.want {
				t.Errorf("printed %q (error %v)\nwant    %q", b.String(), err, c.want)
			}
		})
	}
}
