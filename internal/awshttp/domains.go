package awshttp

import "strings"

// IsAWS tells whether a host is one of AWS's endpoints, in any of its partitions.
func IsAWS(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, domain := range []string{
		".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".amazonwebservices.com.cn", ".amazonaws.eu", ".ic.gov", ".sgov.gov", ".adc-e.uk",
	} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}
