package dynamodb

import (
	"maps"
	"slices"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

func (d *DynamoDB) updateContinuousBackups(p *params) (action, *wire.Error) {
	name := p.table()
	enabled := false
	if q := p.sub("PointInTimeRecoverySpecification"); q == nil {
		p.fail(invalid("%s: PointInTimeRecoverySpecification is required", p.of))
	} else {
		on, given := q.flag("PointInTimeRecoveryEnabled")
		if enabled = on; !given {
			q.fail(invalid("%s: PointInTimeRecoveryEnabled is required", q.of))
		}
		p.adopt(q)
	}
	return func(c *call) (output, *wire.Error) {
		t, err := d.backedUp(name, c.now)
		if err != nil {
			return nil, err
		}
		t.recovery = enabled
		return t.describeBackups(), nil
	}, p.done()
}

func (d *DynamoDB) describeContinuousBackups(p *params) (action, *wire.Error) {
	name := p.table()
	return func(c *call) (output, *wire.Error) {
		t, err := d.backedUp(name, c.now)
		if err != nil {
			return nil, err
		}
		return t.describeBackups(), nil
	}, p.done()
}

// backedUp finds a table for the calls about backups, which have errors of their own.
func (d *DynamoDB) backedUp(name string, now time.Time) (*table, *wire.Error) {
	t := d.find(name, now)
	switch {
	case t == nil || !t.goneAt.IsZero():
		return nil, wire.Errorf("TableNotFoundException", "Table not found: %s", name)
	case now.Before(t.activeAt):
		return nil, wire.Errorf("ContinuousBackupsUnavailableException", "Backups are being enabled for the table: %s. Please retry later", name)
	}
	return t, nil
}

func (t *table) describeBackups() output {
	recovery := output{"PointInTimeRecoveryStatus": "DISABLED"}
	if t.recovery {
		recovery["PointInTimeRecoveryStatus"] = "ENABLED"
	}
	return output{"ContinuousBackupsDescription": output{"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": recovery}}
}

// updateTimeToLive keeps the setting only. The service deletes expired items some time within days, so clients must cope
// with their presence, and here they stay.
func (d *DynamoDB) updateTimeToLive(p *params) (action, *wire.Error) {
	name := p.table()
	attribute, enabled := "", false
	if q := p.sub("TimeToLiveSpecification"); q == nil {
		p.fail(invalid("%s: TimeToLiveSpecification is required", p.of))
	} else {
		attribute = q.str("AttributeName")
		on, given := q.flag("Enabled")
		if enabled = on; !given || attribute == "" {
			q.fail(invalid("%s: both AttributeName and Enabled are required", q.of))
		}
		p.adopt(q)
	}
	return func(c *call) (output, *wire.Error) {
		t, err := d.usable(name, c.now)
		if err != nil {
			return nil, err
		}
		switch {
		case enabled && t.expiry != "":
			return nil, invalid("TimeToLive is already enabled")
		case !enabled && t.expiry == "":
			return nil, invalid("TimeToLive is already disabled")
		case !enabled && t.expiry != attribute:
			return nil, invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.expiry)
		}
		t.expiry = ""
		if enabled {
			t.expiry = attribute
		}
		return output{"TimeToLiveSpecification": output{"AttributeName": attribute, "Enabled": enabled}}, nil
	}, p.done()
}

func (d *DynamoDB) describeTimeToLive(p *params) (action, *wire.Error) {
	name := p.table()
	return func(c *call) (output, *wire.Error) {
		t, err := d.usable(name, c.now)
		if err != nil {
			return nil, err
		}
		out := output{"TimeToLiveStatus": "DISABLED"}
		if t.expiry != "" {
			out = output{"TimeToLiveStatus": "ENABLED", "AttributeName": t.expiry}
		}
		return output{"TimeToLiveDescription": out}, nil
	}, p.done()
}

// tagged finds a table by ARN for the calls about tags.
func (d *DynamoDB) tagged(arn string, now time.Time) (*table, *wire.Error) {
	t := d.find(tableOf(arn), now)
	if t == nil || t.arn != arn {
		return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found: ResourcArn: %s not found", arn)
	}
	return t, nil
}

// maxTags is how many tags a table may have.
const maxTags = 50

func (d *DynamoDB) tagResource(p *params) (action, *wire.Error) {
	arn := p.str("ResourceArn")
	tags := readTags(p)
	if len(tags) == 0 {
		p.fail(invalid("%s: Tags is required", p.of))
	}
	return func(c *call) (output, *wire.Error) {
		t, err := d.tagged(arn, c.now)
		if err != nil {
			return nil, err
		}
		all := maps.Clone(t.tags)
		maps.Copy(all, tags)
		if len(all) > maxTags {
			return nil, invalid("One or more parameter values were invalid: %d tags, but a table may have at most %d", len(all), maxTags)
		}
		t.tags = all
		return output{}, nil
	}, p.done()
}

func (d *DynamoDB) untagResource(p *params) (action, *wire.Error) {
	arn := p.str("ResourceArn")
	keys := p.strings("TagKeys")
	if len(keys) == 0 {
		p.fail(invalid("%s: TagKeys is required", p.of))
	}
	return func(c *call) (output, *wire.Error) {
		t, err := d.tagged(arn, c.now)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			delete(t.tags, k)
		}
		return output{}, nil
	}, p.done()
}

func (d *DynamoDB) listTagsOfResource(p *params) (action, *wire.Error) {
	arn := p.str("ResourceArn")
	return func(c *call) (output, *wire.Error) {
		t, err := d.tagged(arn, c.now)
		if err != nil {
			return nil, err
		}
		tags := []output{}
		for _, k := range slices.Sorted(maps.Keys(t.tags)) {
			tags = append(tags, output{"Key": k, "Value": t.tags[k]})
		}
		return output{"Tags": tags}, nil
	}, p.done()
}

func (d *DynamoDB) describeLimits(p *params) (action, *wire.Error) {
	return func(*call) (output, *wire.Error) {
		return output{
			"AccountMaxReadCapacityUnits": 80000, "AccountMaxWriteCapacityUnits": 80000,
			"TableMaxReadCapacityUnits": 40000, "TableMaxWriteCapacityUnits": 40000,
		}, nil
	}, p.done()
}
