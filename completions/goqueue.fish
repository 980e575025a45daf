# Completes goqueue in fish; `goqueue completion fish` writes it.

# The commands so far, and how many other words there are behind them.
function __goqueue_path
    set -l taking --api-key --at --biggest --bucket --by --by-header --checkpoint --columns --compression --conf --config --confirm --data-dir --disk --every --field --for --format --from --group --groups-max-in-flight --groups-max-retries --groups-max-retry-delay --groups-retention --groups-retry-delay --groups-revocation-timeout --groups-session-timeout --groups-visibility-timeout --header --histogram --host --id --infer --into --isolation --jobs --json-schema --limit --log-format --log-level --log-requests --master --max --max-per-batch --memory --out --output --partition-by --per --plot --port --query --rate --remote --server --server-allowed-hosts --server-allowed-origins --server-connections --server-idle-timeout --server-in-flight-bytes --server-key --server-request-bytes --server-stop-timeout --set --since --sort-by --storage-flush --storage-flush-interval --storage-retention-jump-percent --storage-segment-age --storage-segment-bytes --storage-tail-bytes --storage-upkeep-interval --to --top --topics-auto-create --topics-max-message-bytes --topics-partitions --topics-retention --url --window -g -o -s -u
    set -l paths 'completion' 'config' 'config check' 'config show' 'config template' 'demo' 'fsck' 'serve' 'spark-inspect' 'spark-inspect compaction' 'spark-inspect dlq' 'spark-inspect export' 'spark-inspect forecast' 'spark-inspect gaps' 'spark-inspect keys' 'spark-inspect lag' 'spark-inspect latency' 'spark-inspect package' 'spark-inspect replay' 'spark-inspect run' 'spark-inspect sizes' 'spark-inspect skew' 'spark-inspect sql' 'spark-inspect stream' 'spark-inspect summary' 'spark-inspect timeline' 'spark-inspect usage' 'spark-inspect verify' 'version'
    set -l path
    set -l number 0
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- $word $taking; and set skip 1
        else if contains -- (string join ' ' $path $word) $paths
            set path $path $word
        else
            set number (math $number + 1)
        end
    end
    echo "$path"
    echo $number
end

function __goqueue_at
    set -l found (__goqueue_path)
    contains -- "$found[1]" $argv
end

function __goqueue_place
    set -l found (__goqueue_path)
    contains -- "$found[1]" $argv[3..-1]; and test $found[2] $argv[1] $argv[2]
end

function __goqueue_live
    set -l typed (commandline -ct | string replace -r '^--[^=]*=' '')
    goqueue __complete $argv[1] "$typed" (commandline -opc)[2..-1] 2>/dev/null
end

complete -c goqueue -f
complete -c goqueue -n '__goqueue_at ""' -a completion -d 'Write what completes this program in a shell.'
complete -c goqueue -n '__goqueue_at ""' -a config -d 'Check, show and start a configuration.'
complete -c goqueue -n '__goqueue_at ""' -a demo -d 'Start a broker with lively traffic to try things on.'
complete -c goqueue -n '__goqueue_at ""' -a fsck -d 'Check every frame, its order and every index of a data directory.'
complete -c goqueue -n '__goqueue_at ""' -a serve -d 'Start the broker, and stop it cleanly on ^C or SIGTERM.'
complete -c goqueue -n '__goqueue_at ""' -a spark-inspect -d 'Ask logs with Spark: of a data directory, a copy of one, or a broker at work.'
complete -c goqueue -n '__goqueue_at ""' -a version -d 'Print the version.'
complete -c goqueue -n '__goqueue_at ""' -l version -d 'Print the version and exit'
complete -c goqueue -n '__goqueue_at ""' -l debug -d 'Show where an error comes from'
complete -c goqueue -n '__goqueue_at ""' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "completion"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_place -eq 0 "completion"' -a 'bash zsh fish'
complete -c goqueue -n '__goqueue_at "config"' -a check -d 'Find every problem in a configuration file.'
complete -c goqueue -n '__goqueue_at "config"' -a show -d 'Show the settings in effect and their origin.'
complete -c goqueue -n '__goqueue_at "config"' -a template -d 'Write a complete configuration file.'
complete -c goqueue -n '__goqueue_at "config"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "config check"' -s o -l output -d 'How to print' -x -a 'table json'
complete -c goqueue -n '__goqueue_at "config check"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_place -eq 0 "config check"' -F
complete -c goqueue -n '__goqueue_at "config show"' -s o -l output -d 'How to print' -x -a 'table json yaml'
complete -c goqueue -n '__goqueue_at "config show"' -l data-dir -d 'Directory that holds everything the broker stores' -r -F
complete -c goqueue -n '__goqueue_at "config show"' -l host -d 'Address to listen on' -x
complete -c goqueue -n '__goqueue_at "config show"' -l port -d 'Port to listen on' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-allowed-hosts -d 'Names by which clients may call the broker, with commas between them, or `*` for any' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-allowed-origins -d 'Origins of web pages that may use the broker from a browser, such as `http://localhost:3000`, with commas between them, or `*` for any' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-request-bytes -d 'The largest body of a request' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-in-flight-bytes -d 'Requests and messages that may be under way at once' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-connections -d 'Connections that may be open at once' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-idle-timeout -d 'How long a connection may stay open without a request' -x
complete -c goqueue -n '__goqueue_at "config show"' -l server-stop-timeout -d 'How long requests in progress may take when the broker is stopped' -x
complete -c goqueue -n '__goqueue_at "config show"' -l topics-auto-create -d 'Whether publishing to a topic that does not exist creates it' -x -a 'true false'
complete -c goqueue -n '__goqueue_at "config show"' -l topics-partitions -d 'How many partitions a new topic has' -x
complete -c goqueue -n '__goqueue_at "config show"' -l topics-retention -d 'How long a new topic keeps its messages' -x
complete -c goqueue -n '__goqueue_at "config show"' -l topics-max-message-bytes -d 'The largest message of a new topic' -x
complete -c goqueue -n '__goqueue_at "config show"' -l storage-flush -d 'When a publish is answered' -x -a 'always interval'
complete -c goqueue -n '__goqueue_at "config show"' -l storage-flush-interval -d 'How long written messages may wait for their sync when `flush` is `interval`' -x
complete -c goqueue -n '__goqueue_at "config show"' -l storage-segment-bytes -d 'Size at which a partition begins a new segment file' -x
complete -c goqueue -n '__goqueue_at "config show"' -l storage-segment-age -d 'Age at which a partition begins a new segment file even when the last one is not full' -x
complete -c goqueue -n '__goqueue_at "config show"' -l storage-tail-bytes -d 'Memory for the newest messages of all partitions together' -x
complete -c goqueue -n '__goqueue_at "config show"' -l storage-upkeep-interval -d 'How often the broker looks for messages that retention or compaction may remove' -x
complete -c goqueue -n '__goqueue_at "config show"' -l storage-retention-jump-percent -d 'How much of a topic may be removed for its age in the hour after the clock has jumped ahead, in percent' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-session-timeout -d 'How long a member may go without a sign of life, if it does not say when it joins' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-revocation-timeout -d 'How long a member may take to give up a partition that another one is to have' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-retention -d 'How long a group without members is remembered, with what it has read' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-max-in-flight -d 'How many messages a member may have and not have settled, if it does not say when it joins' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-visibility-timeout -d 'How long a message is lent to a member before it is handed out again, if the poll does not say' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-max-retries -d 'How often a message that failed is tried again before it is a dead letter' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-retry-delay -d 'Before the first retry' -x
complete -c goqueue -n '__goqueue_at "config show"' -l groups-max-retry-delay -d 'The longest that a retry waits by itself' -x
complete -c goqueue -n '__goqueue_at "config show"' -l log-level -d 'The least important lines that are written' -x -a 'debug info warning error'
complete -c goqueue -n '__goqueue_at "config show"' -l log-format -d 'Lines for people, or a JSON object in each line' -x -a 'text json'
complete -c goqueue -n '__goqueue_at "config show"' -l log-requests -d 'Requests that are logged in one second' -x
complete -c goqueue -n '__goqueue_at "config show"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_place -eq 0 "config show"' -F
complete -c goqueue -n '__goqueue_at "config template"' -l for -d 'What the broker is for' -x -a 'default dev production'
complete -c goqueue -n '__goqueue_at "config template"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "demo"' -l port -d 'The port to listen on' -x
complete -c goqueue -n '__goqueue_at "demo"' -l for -d 'End after that long' -x
complete -c goqueue -n '__goqueue_at "demo"' -l rate -d 'How many messages to publish in a second' -x
complete -c goqueue -n '__goqueue_at "demo"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "fsck"' -l repair -d 'Write back from copies, rebuild caches, cut torn tails, replace lost logs with empty ones'
complete -c goqueue -n '__goqueue_at "fsck"' -l yes -d 'Repair without asking'
complete -c goqueue -n '__goqueue_at "fsck"' -l jobs -d 'How many processes check' -x
complete -c goqueue -n '__goqueue_at "fsck"' -s o -l output -d 'How to print' -x -a 'table json'
complete -c goqueue -n '__goqueue_at "fsck"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_place -eq 0 "fsck"' -a '(__fish_complete_directories)'
complete -c goqueue -n '__goqueue_at "serve"' -l config -d 'A YAML file of settings' -r -F
complete -c goqueue -n '__goqueue_at "serve"' -l data-dir -d 'Directory that holds everything the broker stores' -r -F
complete -c goqueue -n '__goqueue_at "serve"' -l host -d 'Address to listen on' -x
complete -c goqueue -n '__goqueue_at "serve"' -l port -d 'Port to listen on' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-allowed-hosts -d 'Names by which clients may call the broker, with commas between them, or `*` for any' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-allowed-origins -d 'Origins of web pages that may use the broker from a browser, such as `http://localhost:3000`, with commas between them, or `*` for any' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-request-bytes -d 'The largest body of a request' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-in-flight-bytes -d 'Requests and messages that may be under way at once' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-connections -d 'Connections that may be open at once' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-idle-timeout -d 'How long a connection may stay open without a request' -x
complete -c goqueue -n '__goqueue_at "serve"' -l server-stop-timeout -d 'How long requests in progress may take when the broker is stopped' -x
complete -c goqueue -n '__goqueue_at "serve"' -l topics-auto-create -d 'Whether publishing to a topic that does not exist creates it' -x -a 'true false'
complete -c goqueue -n '__goqueue_at "serve"' -l topics-partitions -d 'How many partitions a new topic has' -x
complete -c goqueue -n '__goqueue_at "serve"' -l topics-retention -d 'How long a new topic keeps its messages' -x
complete -c goqueue -n '__goqueue_at "serve"' -l topics-max-message-bytes -d 'The largest message of a new topic' -x
complete -c goqueue -n '__goqueue_at "serve"' -l storage-flush -d 'When a publish is answered' -x -a 'always interval'
complete -c goqueue -n '__goqueue_at "serve"' -l storage-flush-interval -d 'How long written messages may wait for their sync when `flush` is `interval`' -x
complete -c goqueue -n '__goqueue_at "serve"' -l storage-segment-bytes -d 'Size at which a partition begins a new segment file' -x
complete -c goqueue -n '__goqueue_at "serve"' -l storage-segment-age -d 'Age at which a partition begins a new segment file even when the last one is not full' -x
complete -c goqueue -n '__goqueue_at "serve"' -l storage-tail-bytes -d 'Memory for the newest messages of all partitions together' -x
complete -c goqueue -n '__goqueue_at "serve"' -l storage-upkeep-interval -d 'How often the broker looks for messages that retention or compaction may remove' -x
complete -c goqueue -n '__goqueue_at "serve"' -l storage-retention-jump-percent -d 'How much of a topic may be removed for its age in the hour after the clock has jumped ahead, in percent' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-session-timeout -d 'How long a member may go without a sign of life, if it does not say when it joins' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-revocation-timeout -d 'How long a member may take to give up a partition that another one is to have' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-retention -d 'How long a group without members is remembered, with what it has read' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-max-in-flight -d 'How many messages a member may have and not have settled, if it does not say when it joins' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-visibility-timeout -d 'How long a message is lent to a member before it is handed out again, if the poll does not say' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-max-retries -d 'How often a message that failed is tried again before it is a dead letter' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-retry-delay -d 'Before the first retry' -x
complete -c goqueue -n '__goqueue_at "serve"' -l groups-max-retry-delay -d 'The longest that a retry waits by itself' -x
complete -c goqueue -n '__goqueue_at "serve"' -l log-level -d 'The least important lines that are written' -x -a 'debug info warning error'
complete -c goqueue -n '__goqueue_at "serve"' -l log-format -d 'Lines for people, or a JSON object in each line' -x -a 'text json'
complete -c goqueue -n '__goqueue_at "serve"' -l log-requests -d 'Requests that are logged in one second' -x
complete -c goqueue -n '__goqueue_at "serve"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a compaction -d 'Tell what compaction would gain, and which keys are superseded most.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a dlq -d 'Tell why messages became dead letters, and what was sent back.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a export -d 'Write topics as Parquet, lines of JSON or CSV.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a forecast -d 'Tell how topics grow, and when the disk will be full.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a gaps -d 'Find missing offsets, broken order and what was published twice.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a keys -d 'Tell which keys there are, and which are hot.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a lag -d 'Tell how far behind groups are, and when retention overtakes them.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a latency -d 'Tell how long messages take: to the log, and until they are acknowledged.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a package -d 'Pack what executors of a cluster need to read logs.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a replay -d 'Publish messages of a log, or the rows of a query, into a topic.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a run -d 'Run a pipeline that a file declares, or find all that is wrong with it.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a sizes -d 'Tell how large messages are: percentiles, histogram, the largest.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a skew -d 'Tell how unevenly messages lie over partitions, and why.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a sql -d 'Ask topics in SQL: each is a table of its name.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a stream -d 'Copy topics as they grow: into files, or into another topic.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a summary -d 'Tell what topics hold, every frame verified.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a timeline -d 'Tell when messages came, the peak and the silences.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a usage -d 'Tell who writes and reads how much.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a verify -d 'Check every frame and its order, and name what is damaged.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l keys -d 'Tell the keys with most superseded messages, and not the partitions'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l top -d 'With --keys' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l approx -d 'Estimate the different keys, within 2 %, in little memory'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect compaction"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l by -d 'What is counted together' -x -a 'error origin group hour'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l since -d 'Count apart what is new since a time, a day, or -24h' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l top -d 'So many rows at most' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect dlq"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l out -d 'The directory to write' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l format -d 'json is a line a message' -x -a 'parquet json csv'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l partition-by -d 'Directories' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l columns -d 'What to write of a message' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l json -d 'A column for each field of JSON values, in place of value'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l json-schema -d 'The fields of JSON values' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l infer -d 'Find out the fields from so many messages' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l compression -d 'zstd for Parquet, none for the others' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l overwrite -d 'Replace an export that is there'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l skip-damage -d 'Read on behind damage and what was removed, which end it otherwise'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect export"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l disk -d 'What all topics may fill' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l at -d 'As of this moment, and not of now' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect forecast"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l max -d 'Print so many rows at most' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l content -d 'Find messages with the same key and value instead'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect gaps"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l top -d 'How many keys are printed' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l approx -d 'Estimate'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l plot -d 'Draw it as well, into FILE.svg or FILE.png' -r -F
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect keys"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -s g -l group -d 'Of this group alone' -x -a '(__goqueue_live groups)'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l window -d 'What speeds look back' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l at -d 'As of this moment, and not of now' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect lag"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l header -d 'The header in which producers tell their own time' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l field -d 'The field of a JSON value that tells it' -r -F
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l bucket -d 'Over time, in steps as in 1m, 1h or 1d' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l plot -d 'Draw it as well, into FILE.svg or FILE.png' -r -F
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect latency"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect package"' -s o -l output -d 'How to print' -x -a 'table json'
complete -c goqueue -n '__goqueue_at "spark-inspect package"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_place -eq 0 "spark-inspect package"' -F
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l into -d 'Where the messages go' -x -a '(__goqueue_live topics)'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -s s -l server -d 'The broker that has the topic' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l server-key -d 'What that broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l query -d 'Replay the rows of a query' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l keep-partitions -d 'Into the partition of the same number'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l rate -d 'At most so many messages a second' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l id -d 'What was stored under this id is not stored again' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l json-schema -d 'The fields of JSON values' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l infer -d 'Find out the fields from so many messages' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l skip-damage -d 'Read on behind damage and what was removed, which end it otherwise'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l dry-run -d 'Only show what would be done'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -s y -l yes -d 'Do it without asking'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect replay"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l set -d 'The value of ${NAME}' -x
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l check -d 'Find all problems, and read no message'
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect run"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l histogram -d 'Print how often each size is, by powers of two' -x -a 'frame value key headers'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l biggest -d 'Print the largest messages' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l plot -d 'Draw it as well, into FILE.svg or FILE.png' -r -F
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sizes"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect skew"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l limit -d 'Show a person at most so many rows' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l json-schema -d 'The fields of JSON values' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l infer -d 'Find out the fields from so many messages' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l no-json -d 'No columns for the fields of JSON values'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l explain -d 'Show what would be read, and how'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l skip-damage -d 'Read on behind damage and what was removed, which end it otherwise'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect sql"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l checkpoint -d 'Where it is remembered how far this stream is' -x -a '(__fish_complete_directories)'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l out -d 'The directory that gets the files' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l into -d 'The topic that gets the messages' -x -a '(__goqueue_live topics)'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -s s -l server -d 'The broker that has the topic' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l server-key -d 'What that broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l format -d 'Of the files' -x -a 'parquet json csv'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l partition-by -d 'Directories' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l keep-partitions -d 'Into the partition of the same number'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l query -d 'What becomes of the messages' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l json-schema -d 'The fields of JSON values' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l infer -d 'Find out the fields from so many messages' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l available-now -d 'End with what is there now'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l every -d 'How often a batch begins' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l max-per-batch -d 'At most about so many messages in a batch' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l skip-damage -d 'Read on behind damage and what was removed, which end it otherwise'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect stream"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l bucket -d 'Of one line, as in 1m' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l by -d 'A timeline for each of these' -x -a 'topic partition priority'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l plot -d 'Draw it as well, into FILE.svg or FILE.png' -r -F
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect timeline"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l by -d 'Whose use is told' -x -a 'topic partition producer group'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l by-header -d 'Tell apart what this header says, as in tenant' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l per -d 'Over time, in days or hours of UTC' -x -a 'day hour'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect usage"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l index -d 'Compare each index with what its log says as well'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l isolation -d 'Whether messages of open and of aborted transactions are seen' -x -a 'read_committed read_uncommitted'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect verify"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "version"' -s h -l help -d 'Show this message and exit'
