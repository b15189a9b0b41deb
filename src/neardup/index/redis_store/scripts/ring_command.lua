-- Carry out a command, after a guard.
return redis.call(unpack(ARGV))
