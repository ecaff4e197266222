// Loaded before dynalite, which ends when a client is killed while its request is under way: the request is over then, the
// server need not be.
process.on('uncaughtException', (err) => {
  if (err.code === 'ECONNRESET') return
  console.error(err)
  process.exit(1)
})
