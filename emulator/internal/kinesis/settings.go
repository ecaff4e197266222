package kinesis

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Bounds of the retention period, in hours.
const (
	minRetention = 24
	maxRetention = 8760
)

type retentionInput struct {
	streamRef
	RetentionPeriodHours *int
}

func (k *Service) increaseRetention(now time.Time, in *retentionInput) (any, *wire.Error) {
	return k.setRetention(now, in, "IncreaseStreamRetentionPeriod", func(now, want time.Duration) bool { return want >= now })
}

func (k *Service) decreaseRetention(now time.Time, in *retentionInput) (any, *wire.Error) {
	return k.setRetention(now, in, "DecreaseStreamRetentionPeriod", func(now, want time.Duration) bool { return want <= now })
}

func (k *Service) setRetention(now time.Time, in *retentionInput, operation string, allowed func(now, want time.Duration) bool) (any, *wire.Error) {
	if err := k.rate(operation, "", 5); err != nil {
		return nil, err
	}
	s, err := k.findActive(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	if in.RetentionPeriodHours == nil {
		return nil, malformed("RetentionPeriodHours is needed")
	}
	hours := *in.RetentionPeriodHours
	if hours < minRetention || hours > maxRetention {
		return nil, invalid("RetentionPeriodHours is %d, want %d to %d", hours, minRetention, maxRetention)
	}
	want := time.Duration(hours) * time.Hour
	if !allowed(s.retention, want) {
		return nil, invalid("%s to %d hours, but stream %s has %d", operation, hours, s.name, int(s.retention.Hours()))
	}
	s.retention = want
	k.begin(now, s, updating)
	return nil, nil
}

type updateStreamModeInput struct {
	StreamARN, StreamId string
	StreamModeDetails   *modeShape
}

func (k *Service) updateStreamMode(now time.Time, in *updateStreamModeInput) (any, *wire.Error) {
	if in.StreamModeDetails == nil {
		return nil, malformed("StreamModeDetails is needed")
	}
	mode := in.StreamModeDetails.StreamMode
	if mode != provisioned && mode != onDemand {
		return nil, malformed("StreamMode is %q, want %s or %s", mode, provisioned, onDemand)
	}
	s, err := k.findActive(now, streamRef{StreamARN: in.StreamARN, StreamId: in.StreamId})
	if err != nil {
		return nil, err
	}
	s.mode = mode
	k.begin(now, s, updating)
	return nil, nil
}

type encryptionInput struct {
	streamRef
	EncryptionType, KeyId string
}

func (k *Service) startEncryption(now time.Time, in *encryptionInput) (any, *wire.Error) {
	return k.setEncryption(now, in, in.KeyId)
}

func (k *Service) stopEncryption(now time.Time, in *encryptionInput) (any, *wire.Error) {
	return k.setEncryption(now, in, "")
}

// setEncryption sets a flag that answers carry; the data stays as it is.
func (k *Service) setEncryption(now time.Time, in *encryptionInput, key string) (any, *wire.Error) {
	if in.EncryptionType != "KMS" {
		return nil, malformed("EncryptionType is %q, want KMS", in.EncryptionType)
	}
	if in.KeyId == "" {
		return nil, malformed("KeyId is needed")
	}
	s, err := k.findActive(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	s.keyID = key
	k.begin(now, s, updating)
	return nil, nil
}

const maxTags = 50

func checkTags(tags map[string]string) *wire.Error {
	for key, value := range tags {
		if len(key) < 1 || len(key) > 128 {
			return malformed("tag key of %d bytes, want 1 to 128", len(key))
		}
		if len(value) > 256 {
			return malformed("value of tag %q has %d bytes, want at most 256", key, len(value))
		}
	}
	return nil
}

func setTags(have, tags map[string]string) *wire.Error {
	if err := checkTags(tags); err != nil {
		return err
	}
	merged := maps.Clone(have)
	maps.Copy(merged, tags)
	if len(merged) > maxTags {
		return invalid("%d tags, want at most %d", len(merged), maxTags)
	}
	maps.Copy(have, tags)
	return nil
}

func dropTags(have map[string]string, keys []string) {
	for _, key := range keys {
		delete(have, key)
	}
}

type addTagsInput struct {
	streamRef
	Tags map[string]string
}

func (k *Service) addTagsToStream(now time.Time, in *addTagsInput) (any, *wire.Error) {
	s, err := k.find(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	return nil, setTags(s.tags, in.Tags)
}

type removeTagsInput struct {
	streamRef
	TagKeys []string
}

func (k *Service) removeTagsFromStream(now time.Time, in *removeTagsInput) (any, *wire.Error) {
	s, err := k.find(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	dropTags(s.tags, in.TagKeys)
	return nil, nil
}

type listTagsInput struct {
	streamRef
	ExclusiveStartTagKey string
	Limit                *int
}

type listTagsOutput struct {
	Tags        []tagShape
	HasMoreTags bool
}

func (k *Service) listTagsForStream(now time.Time, in *listTagsInput) (any, *wire.Error) {
	s, err := k.find(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	limit, err := within("Limit", in.Limit, maxTags, maxTags)
	if err != nil {
		return nil, err
	}
	out := listTagsOutput{Tags: tagShapes(s.tags)}
	out.Tags = slices.DeleteFunc(out.Tags, func(t tagShape) bool { return t.Key <= in.ExclusiveStartTagKey && in.ExclusiveStartTagKey != "" })
	if len(out.Tags) > limit {
		out.Tags, out.HasMoreTags = out.Tags[:limit], true
	}
	return out, nil
}

func tagShapes(tags map[string]string) []tagShape {
	out := make([]tagShape, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tagShape{key, tags[key]})
	}
	return out
}

type resourceTagsInput struct {
	ResourceARN, StreamId string
	Tags                  map[string]string
	TagKeys               []string
}

// tagged finds the tags of a stream or a consumer by ARN.
func (k *Service) tagged(now time.Time, arn, streamID string) (map[string]string, *wire.Error) {
	if strings.Contains(arn, "/consumer/") {
		c, err := k.findConsumer(now, consumerRef{ConsumerARN: arn, StreamId: streamID})
		if err != nil {
			return nil, err
		}
		return c.tags, nil
	}
	s, err := k.find(now, streamRef{StreamARN: arn, StreamId: streamID})
	if err != nil {
		return nil, err
	}
	return s.tags, nil
}

func (k *Service) tagResource(now time.Time, in *resourceTagsInput) (any, *wire.Error) {
	tags, err := k.tagged(now, in.ResourceARN, in.StreamId)
	if err != nil {
		return nil, err
	}
	return nil, setTags(tags, in.Tags)
}

func (k *Service) untagResource(now time.Time, in *resourceTagsInput) (any, *wire.Error) {
	tags, err := k.tagged(now, in.ResourceARN, in.StreamId)
	if err != nil {
		return nil, err
	}
	dropTags(tags, in.TagKeys)
	return nil, nil
}

func (k *Service) listTagsForResource(now time.Time, in *resourceTagsInput) (any, *wire.Error) {
	tags, err := k.tagged(now, in.ResourceARN, in.StreamId)
	if err != nil {
		return nil, err
	}
	return listTagsOnly{tagShapes(tags)}, nil
}

type listTagsOnly struct{ Tags []tagShape }
