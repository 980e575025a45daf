# Completes goqueue in fish; `goqueue completion fish` writes it.

# The commands so far, and how many other words there are behind them.
function __goqueue_path
    set -l taking --api-key --conf --config --data-dir --for --from --groups-max-in-flight --groups-max-retries --groups-max-retry-delay --groups-retention --groups-retry-delay --groups-revocation-timeout --groups-session-timeout --groups-visibility-timeout --host --jobs --log-format --log-level --log-requests --master --memory --output --port --rate --remote --server-connections --server-idle-timeout --server-in-flight-bytes --server-request-bytes --server-stop-timeout --sort-by --storage-flush --storage-flush-interval --storage-segment-age --storage-segment-bytes --storage-tail-bytes --storage-upkeep-interval --to --topics-auto-create --topics-max-message-bytes --topics-partitions --topics-retention --url -o -u
    set -l paths 'completion' 'config' 'config check' 'config show' 'config template' 'demo' 'fsck' 'serve' 'spark-inspect' 'spark-inspect summary' 'version'
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
complete -c goqueue -n '__goqueue_at "fsck"' -l repair -d 'Rebuild caches and cut torn tails'
complete -c goqueue -n '__goqueue_at "fsck"' -l yes -d 'Repair without asking'
complete -c goqueue -n '__goqueue_at "fsck"' -l jobs -d 'How many processes check' -x
complete -c goqueue -n '__goqueue_at "fsck"' -s o -l output -d 'How to print' -x -a 'table json'
complete -c goqueue -n '__goqueue_at "fsck"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_place -eq 0 "fsck"' -a '(__fish_complete_directories)'
complete -c goqueue -n '__goqueue_at "serve"' -l config -d 'A YAML file of settings' -r -F
complete -c goqueue -n '__goqueue_at "serve"' -l data-dir -d 'Directory that holds everything the broker stores' -r -F
complete -c goqueue -n '__goqueue_at "serve"' -l host -d 'Address to listen on' -x
complete -c goqueue -n '__goqueue_at "serve"' -l port -d 'Port to listen on' -x
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
complete -c goqueue -n '__goqueue_at "spark-inspect"' -a summary -d 'Tell what topics hold: messages, bytes, offsets and times of each partition, every frame verified.'
complete -c goqueue -n '__goqueue_at "spark-inspect"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -s u -l url -d 'Read a broker at work instead' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l from -d 'Begin at earliest, an offset, a time, a day, or -24h' -x -a 'earliest latest'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l to -d 'End before now, an offset, a time, a day, or -24h' -x -a 'earliest latest now'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -s o -l output -d 'How to print' -x -a 'table wide json jsonl yaml csv parquet'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l master -d 'Where Spark runs' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l remote -d 'A Spark Connect server' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l conf -d 'A setting of Spark' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -l memory -d 'Of the driver\'s JVM, as in 2g' -x
complete -c goqueue -n '__goqueue_at "spark-inspect summary"' -s h -l help -d 'Show this message and exit'
complete -c goqueue -n '__goqueue_at "version"' -s h -l help -d 'Show this message and exit'
