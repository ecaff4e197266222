// Package integration runs workers against things that are not in this process: other processes, foreign servers.
package integration
