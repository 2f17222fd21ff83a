-- One sweep, raw facts only. Field name = column name in storage/records.py; derived numbers are computed by runner/analysis.
-- Unless said otherwise, *_ns are nanoseconds of the monotonic clock since the cell's origin (cell.started_unix_ns).

CREATE TABLE meta (
  sweep_id VARCHAR NOT NULL,           -- the folder's name; sortable by time
  name VARCHAR NOT NULL,               -- what the user called the sweep
  schema_version BIGINT NOT NULL,      -- version of these tables; a higher one than ours is not read
  tool_version VARCHAR NOT NULL,       -- version of Goodput Lab that measured
  created_unix_ns BIGINT NOT NULL,     -- ns, wall clock (Unix epoch)
  simulated BOOLEAN NOT NULL,          -- true: calculated in virtual time, nothing was measured
  config VARCHAR NOT NULL,             -- JSON: the validated sweep config
  backend VARCHAR NOT NULL,            -- JSON: the backend without keys and user info
  environment VARCHAR NOT NULL         -- JSON: hardware and versions
);

CREATE TABLE cell (
  cell BIGINT NOT NULL,                -- index in running order
  setting VARCHAR NOT NULL,            -- JSON object: server parameters, keys as in [grid]
  load VARCHAR NOT NULL,               -- JSON object: load level, such as {"request_rate": 2.0} (requests/s)
  repeat BIGINT NOT NULL,              -- index of the repeat, from 0
  status VARCHAR NOT NULL,             -- running | ok | failed | skipped
  error_kind VARCHAR,                  -- why it failed, one word; null if it did not
  error_detail VARCHAR,                -- why it failed, one sentence
  exit_code BIGINT,                    -- exit code of the server process, if it ended
  log_tail VARCHAR,                    -- last lines of the server's log
  start_line VARCHAR,                  -- the command of this setting, ready to paste; keys left out
  server VARCHAR,                      -- JSON object: dialect, model, fields taken, tokens per word, notes
  started_unix_ns BIGINT,              -- ns, wall clock (Unix epoch) at the cell's origin
  window_start_ns BIGINT,              -- ns: warm-up ends, measured window begins
  window_end_ns BIGINT,                -- ns: measured window ends
  end_ns BIGINT,                       -- ns: drain is over
  clock_steps BIGINT NOT NULL          -- count: steps of the wall clock seen while measuring
);

CREATE TABLE request (
  cell BIGINT NOT NULL,                -- cell it belongs to
  request BIGINT NOT NULL,             -- index in the cell's trace; same index, same lengths in every setting
  class_name VARCHAR NOT NULL,         -- request class of the mix
  priority BIGINT NOT NULL,            -- priority sent with it; lower is more urgent
  prompt_tokens_asked BIGINT NOT NULL, -- tokens: prompt length that was asked for
  output_tokens_asked BIGINT NOT NULL, -- tokens: output length that was asked for
  scheduled_ns BIGINT NOT NULL,        -- ns: intended arrival (open loop) or worker free (closed loop)
  sent_ns BIGINT,                      -- ns: right before its first byte was written; null if never sent
  connect_ns BIGINT,                   -- ns, a duration: TCP and name look-up; null on a reused connection
  tls_ns BIGINT,                       -- ns, a duration: TLS handshake; null on plain TCP
  first_byte_ns BIGINT,                -- ns: first byte of the response
  first_chunk_ns BIGINT,               -- ns: first chunk that carries generated text of any channel
  first_answer_ns BIGINT,              -- ns: first chunk with non-empty answer text (not reasoning)
  end_ns BIGINT,                       -- ns: end of the stream, or of the attempt
  chunk_deltas_us UINTEGER[] NOT NULL, -- us: gaps between chunks with text, in order; one fewer than token_events
  token_events BIGINT NOT NULL,        -- count: chunks that carried generated text
  shared_stamps BIGINT NOT NULL,       -- count: of those, in the same read as the chunk before (gap 0 by construction)
  user_stamps BIGINT NOT NULL,         -- count: of those, reads without a kernel stamp
  output_tokens BIGINT,                -- tokens generated, by the best source there was
  output_tokens_source VARCHAR,        -- usage | timings | tokenize | estimated
  reasoning_tokens BIGINT,             -- tokens: of those, reasoning, if told
  prompt_tokens BIGINT,                -- tokens of the prompt as the server counted them
  cached_prompt_tokens BIGINT,         -- tokens of the prompt taken from the server's prefix cache, if told
  load_ms DOUBLE,                      -- ms: cold model load told by the server
  retry_after_s DOUBLE,                -- s: wait asked for by a server that rejected it
  malformed_events BIGINT NOT NULL,    -- count: events of the stream that could not be read
  saw_terminator BOOLEAN NOT NULL,     -- true: the dialect's own end mark came
  outcome VARCHAR NOT NULL,            -- ok | error | cancelled
  error_kind VARCHAR,                  -- what went wrong, one word; null if nothing did
  error_detail VARCHAR,                -- what went wrong, as the server or the system put it
  http_status BIGINT,                  -- HTTP status code; null if no answer came
  finish_reason VARCHAR,               -- why the server ended the text, in its own word
  reused_connection BOOLEAN NOT NULL,  -- true: sent over a connection that was already open
  resends BIGINT NOT NULL,             -- count: sent again because an idle connection was already dead
  clock VARCHAR NOT NULL               -- kernel | user: what stamped its reads
);

CREATE TABLE engine_sample (
  cell BIGINT NOT NULL,                -- cell it belongs to
  at_ns BIGINT NOT NULL,               -- ns: when the scrape was answered
  source VARCHAR NOT NULL,             -- metrics | slots | status | none
  scrape_ms DOUBLE NOT NULL,           -- ms the scrape took
  running DOUBLE,                      -- sequences in the batch now
  waiting DOUBLE,                      -- sequences waiting now
  kv_cache_usage DOUBLE,               -- share of the KV cache in use, 0..1
  num_preemptions_total DOUBLE,        -- count since the server started: sequences thrown out of the batch
  prompt_tokens_total DOUBLE,          -- tokens since the server started: prompts computed
  generation_tokens_total DOUBLE,      -- tokens since the server started: generated
  iterations_total DOUBLE,             -- count since the server started: engine steps
  iteration_tokens_total DOUBLE,       -- tokens since the server started: sum over steps of each step's tokens
  iteration_seqs_total DOUBLE,         -- sequences since the server started: sum over steps of each step's sequences
  rejected_total DOUBLE,               -- count since the server started: requests turned away
  queue_time_s_total DOUBLE,           -- s since the server started: sum of the queue time histogram
  queue_time_count DOUBLE,             -- count since the server started: entries of the queue time histogram
  prefix_cache_queries_total DOUBLE,   -- tokens since the server started: looked up in the prefix cache
  prefix_cache_hits_total DOUBLE,      -- tokens since the server started: found in the prefix cache
  kv_cache_usage_max DOUBLE,           -- share of the KV cache in use, 0..1, of the fullest engine (kv_cache_usage: the mean)
  engines DOUBLE,                      -- count: engines behind the address, put together
  seats DOUBLE,                        -- sequences the server says it would run at once
  swapped DOUBLE,                      -- sequences thrown out of the batch that wait to come back
  ttft_s_total DOUBLE,                 -- s since the server started: sum of its own time-to-first-token histogram
  ttft_count DOUBLE,                   -- count since the server started: entries of that histogram
  itl_s_total DOUBLE,                  -- s since the server started: sum of its own time-between-tokens histogram
  itl_count DOUBLE,                    -- count since the server started: entries of that histogram
  iteration_tokens_buckets VARCHAR,    -- JSON object: at most so many tokens -> steps since the server started (cumulative)
  server_start_s DOUBLE                -- s, the server's clock: when its process began; another value is another process
);

CREATE TABLE client_sample (
  cell BIGINT NOT NULL,                -- cell it belongs to
  at_ns BIGINT NOT NULL,               -- ns: end of the interval looked at
  loop_lag_ms DOUBLE NOT NULL,         -- ms: worst lateness of the event loop's timer in the interval
  cpu_share DOUBLE NOT NULL,           -- CPU of our own process / one core, 0..n
  open_streams BIGINT NOT NULL,        -- count: streams open at that moment
  others_share DOUBLE                  -- share of all processors, 0..1, that other programs kept busy; null: can't be told
);
