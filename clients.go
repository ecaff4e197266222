package shardlease

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
)

// WithStreamClient makes the worker read one stream through api instead of the client for all: for a stream of another
// account or region whose owner has not allowed our credentials to read it, or that has another endpoint. arn is the stream's, or
// ends in stream/* for all streams of an account and region that have no client of their own. If the worker reads one stream,
// Config.StreamARN must name it. The client must be of the ARN's region.
func WithStreamClient(arn string, api KinesisAPI) Option {
	return func(o *options) {
		if o.clients == nil {
			o.clients = map[string]KinesisAPI{}
		}
		o.clients[arn] = api
	}
}

// given is what an option was given, and what it wants.
type given struct {
	option, want string
	value        any
}

// validateClients checks the clients that options brought, and the other values that must not be nil.
func (o options) validateClients(cfg config.Config) error {
	var faults []error
	for _, g := range o.given {
		if g.value == nil || isNilPointer(g.value) {
			faults = append(faults, fmt.Errorf("%s was given %s, want %s", g.option, nilOf(g.value), g.want))
		}
	}
	for arn, api := range o.clients {
		if err := o.validateStreamClient(cfg, arn, api); err != nil {
			faults = append(faults, fmt.Errorf("WithStreamClient was given %q %w", arn, err))
		}
	}
	return errors.Join(faults...)
}

// validateStreamClient checks what [WithStreamClient] was given.
func (o options) validateStreamClient(cfg config.Config, arn string, api KinesisAPI) error {
	if api == nil || isNilPointer(api) {
		return fmt.Errorf("with %s, want a client", nilOf(api))
	}
	name := arn
	if strings.HasSuffix(arn, ":stream/*") {
		name = strings.TrimSuffix(arn, "*") + "x"
	}
	if (config.StreamConfig{StreamARN: name}).Validate() != nil {
		return fmt.Errorf("with %T, want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME, NAME or *, in the partition that has the region, and a client", api)
	}
	if in, region := strings.Split(arn, ":")[3], regionOf(aws.Config{}, api); region != "" && region != in {
		return fmt.Errorf("with a client of region %s, want one of %s", region, in)
	}
	if o.several(cfg) || o.tracked || o.sourced { // such a stream may come, or have left leases
		return nil
	}
	switch only := cfg.Complete().StreamARN; {
	case only == "":
		return fmt.Errorf("and nothing would use the client, as StreamName %q has no account: want the stream's ARN in StreamARN, too, or WithKinesis", cfg.StreamName)
	case only != arn && (name == arn || !strings.HasPrefix(only, strings.TrimSuffix(arn, "*"))):
		return fmt.Errorf("want the ARN of the only stream that is read: %s", only)
	}
	return nil
}

// isNilPointer reports whether v is a pointer that is nil: as an interface it is not, and would crash at the first call.
func isNilPointer(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// nilOf names a value that is nil.
func nilOf(v any) string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprintf("a nil %T", v)
}

// regionOf is where a client reads, empty if that is not known.
func regionOf(cloud aws.Config, api KinesisAPI) string {
	if region, known := clientRegion(api); known {
		return region
	}
	return cloud.Region
}

// clientRegion is what a client says itself of where it reads.
func clientRegion(api KinesisAPI) (region string, known bool) {
	switch c := api.(type) {
	case *kinesis.Client:
		if c != nil {
			return c.Options().Region, true
		}
	case Source:
		return c.Region(), true
	}
	return "", false
}

// client is the one that reads the stream with this ARN.
func (m *streamMaker) client(arn string) (api KinesisAPI, own bool) {
	if api, ok := m.clients[arn]; ok {
		return api, true
	}
	if of, _, ok := strings.Cut(arn, ":stream/"); ok {
		if api, ok := m.clients[of+":stream/*"]; ok {
			return api, true
		}
	}
	return m.api, false
}

// reachable returns an error if a stream lies in another region than the client for all, and has no client of its own.
func (m *streamMaker) reachable(arn string) error {
	if m.reaches(arn) {
		return nil
	}
	return m.unreachable("StreamARN", arn)
}

func (m *streamMaker) reaches(arn string) bool {
	parts := strings.Split(arn, ":")
	_, own := m.client(arn)
	return own || m.region == "" || len(parts) != 6 || parts[3] == m.region
}

func (m *streamMaker) unreachable(field, arn string) error {
	return fmt.Errorf("%s is %q, want region %s, which the Kinesis client has, or a client of its own for the stream (WithStreamClient)", field, arn, m.region)
}
