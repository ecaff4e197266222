// Package golden holds what the Java KCL was seen to write and ask: rows of its tables and requests to DynamoDB, recorded
// from amazon-kinesis-client 2.7.2, 3.4.2 and 3.5.1. Tests hold our rows and our emulator against them.
//
// Bodies of requests and values inside items are Java's own. Responses were given by a sketch of this project's emulator, so
// their envelope, the order of sets and the texts of errors prove nothing. The application's name is replaced by APP, workers
// are w1 to w4. The files are read anew by each call; they have 0.6 MB.
package golden
