# Completes goqueue-cli in fish; `goqueue-cli completion fish` writes it.

# The commands so far, and how many other words there are behind them.
function __goqueue_cli_path
    set -l taking --api-key --api-key-file --at --batch --buckets --color --confirm --context --count --delay --duration --error --every --file --first --for --format --from --group --header --isolation --key --key-separator --last --limit --messages --output --partition --partitions --priority --producers --rate --reason --save --seed --server --set --shift --size --skip --sort-by --state --target --template --timeout --to --topic --transaction --transactional-id --unset --until-idle --visibility --warm-up --where -c -g -n -o -s
    set -l paths 'bench' 'bench compare' 'bench consume' 'bench latency' 'bench publish' 'completion' 'config' 'config create' 'config delete' 'config describe' 'config edit' 'config list' 'config use' 'config view' 'consume' 'delayed' 'delayed cancel' 'delayed deliver' 'delayed describe' 'delayed list' 'delayed reschedule' 'delayed stats' 'delayed timeline' 'dlq' 'dlq browse' 'dlq describe' 'dlq errors' 'dlq list' 'dlq redrive' 'dlq sample' 'dlq show' 'group' 'group delete' 'group describe' 'group lag' 'group list' 'group reset' 'group wait' 'group watch' 'produce' 'publish' 'topic' 'topic alter' 'topic compact' 'topic create' 'topic delete' 'topic describe' 'topic edit' 'topic list' 'topic priorities' 'topic watch' 'transaction' 'transaction abort' 'transaction describe' 'transaction list' 'undo'
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

function __goqueue_cli_at
    set -l found (__goqueue_cli_path)
    contains -- "$found[1]" $argv
end

function __goqueue_cli_place
    set -l found (__goqueue_cli_path)
    contains -- "$found[1]" $argv[3..-1]; and test $found[2] $argv[1] $argv[2]
end

function __goqueue_cli_live
    set -l typed (commandline -ct | string replace -r '^--[^=]*=' '')
    goqueue-cli __complete $argv[1] "$typed" (commandline -opc)[2..-1] 2>/dev/null
end

complete -c goqueue-cli -f
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a bench -d 'Measure what a broker does under load, and compare.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a completion -d 'Write what completes this program in a shell.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a config -d 'Choose the broker, and keep how it is spoken to.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a consume -d 'Read the messages of a topic.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a delayed -d 'See which messages wait for their time, and change that.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a dlq -d 'Find dead letters, see why they failed, and send them back.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a group -d 'See how far behind groups are, and have them read on from elsewhere.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a publish -d 'Publish messages to a topic.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a topic -d 'Create, list, watch, edit, compact and delete topics.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a transaction -d 'See which transactions are open, what they hold back, and end those that hang.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -a undo -d 'Undo a reset, or list what can be undone.'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at ""' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l version -d 'Print the version and exit'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -l debug -d 'Show where an error comes from'
complete -c goqueue-cli -n '__goqueue_cli_at ""' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "bench"' -a compare -d 'Compare two results of a benchmark.'
complete -c goqueue-cli -n '__goqueue_cli_at "bench"' -a consume -d 'Measure how fast messages are read.'
complete -c goqueue-cli -n '__goqueue_cli_at "bench"' -a latency -d 'Measure how long messages take from being sent to being received.'
complete -c goqueue-cli -n '__goqueue_cli_at "bench"' -a publish -d 'Measure how fast messages are published.'
complete -c goqueue-cli -n '__goqueue_cli_at "bench"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "bench compare"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "bench compare"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "bench compare"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench compare"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "bench compare"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l messages -d 'How many messages are counted' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l size -d 'The size of each value, as in 1KiB' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l partitions -d 'How many a new topic has' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l group -d 'Read as the only member of a new group, and acknowledge everything'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l save -d 'Keep the result, for `goqueue-cli bench compare`' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "bench consume"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "bench consume"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l rate -d 'How many messages are sent a second' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l duration -d 'How long to measure, without the warm-up' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l warm-up -d 'How long not to count before that' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l size -d 'The size of each value, as in 1KiB' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l partitions -d 'How many a new topic has' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l save -d 'Keep the result, for `goqueue-cli bench compare`' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "bench latency"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "bench latency"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l messages -d 'How many messages are counted' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l size -d 'The size of each value, as in 1KiB' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l partitions -d 'How many a new topic has' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l producers -d 'How many publish at once, in threads of this process' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l batch -d 'A batch is sent when it has N messages' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l rate -d 'Publish N messages a second, not all at once' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l keep -d 'Do not delete the new topic, for `bench consume`'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l save -d 'Keep the result, for `goqueue-cli bench compare`' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "bench publish"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "bench publish"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "completion"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "completion"' -a 'bash zsh fish'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a create -d 'Create a context.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a delete -d 'Delete contexts, and the keys that they hold.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a describe -d 'Show all about contexts.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a edit -d 'Change a context.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a list -d 'List the contexts.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a use -d 'Make a context the current one.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -a view -d 'Show what is in effect, and where it comes from.'
complete -c goqueue-cli -n '__goqueue_cli_at "config"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -s s -l server -d 'Where its broker is' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -l api-key -d 'What its broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -l timeout -d 'How long to wait for its broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -s o -l output -d 'How to print what it answers' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -l protected -l no-protected -d 'Ask for the name before anything is destroyed'
complete -c goqueue-cli -n '__goqueue_cli_at "config create"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "config delete"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "config delete"' -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "config describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "config describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "config describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "config describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "config describe"' -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -l unset -d 'What to leave to the default' -x -a 'server api-key api-key-file timeout output protected'
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -s s -l server -d 'Where its broker is' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -l api-key -d 'What its broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -l timeout -d 'How long to wait for its broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -s o -l output -d 'How to print what it answers' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -l protected -l no-protected -d 'Ask for the name before anything is destroyed'
complete -c goqueue-cli -n '__goqueue_cli_at "config edit"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "config edit"' -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "config list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "config list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "config list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "config list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "config use"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "config use"' -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l show-origin -d 'Show where each value comes from'
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "config view"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l partition -d 'Read only this one' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l from -d 'Begin at earliest, latest, an offset, a time, a day, or -1h' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l to -d 'End before now, an offset, a time, a day, or -1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -s n -l last -d 'Begin with the last N messages' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -s f -l follow -d 'Go on with messages as they come'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l limit -d 'End after N messages' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l where -d 'Only messages like key=tea or json.total>40' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l group -d 'Join this group, and acknowledge what was written' -x -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l visibility -d 'How long the group waits for an acknowledgement, with --group' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l until-idle -d 'End when nothing has come for so long, with --group' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l confirm -d 'Do not ask in a protected context, with --group' -x -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l format -d 'How to print a message' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l isolation -d 'read_uncommitted shows messages of open and aborted transactions too' -x -a 'read_committed read_uncommitted'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l skip-damage -d 'Read around what cannot be read'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "consume"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "consume"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a cancel -d 'Cancel delayed messages: they are never delivered.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a deliver -d 'Deliver delayed messages now.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a describe -d 'Show delayed messages in full.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a list -d 'List the delayed messages of a topic, the next due first.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a reschedule -d 'Deliver delayed messages at another time.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a stats -d 'Show what waits in all topics, and how late the others were.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -a timeline -d 'Show how many delayed messages are due when.'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l all -d 'All that wait in the topic, as far as filters let them'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l where -d 'Only those that fit, as in \'json.total>40\'' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l partition -d 'Only those of this partition' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l from -d 'Only those due at a time, +1h, or later' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l to -d 'Only those due before a time, a day, or +1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l limit -d 'At most so many, the next due first' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed cancel"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "delayed cancel"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l all -d 'All that wait in the topic, as far as filters let them'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l where -d 'Only those that fit, as in \'json.total>40\'' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l partition -d 'Only those of this partition' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l from -d 'Only those due at a time, +1h, or later' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l to -d 'Only those due before a time, a day, or +1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l limit -d 'At most so many, the next due first' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed deliver"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "delayed deliver"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "delayed describe"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l where -d 'Only those that fit, as in \'json.total>40\'' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l partition -d 'Only those of this partition' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l from -d 'Only those due at a time, +1h, or later' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l to -d 'Only those due before a time, a day, or +1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l state -d 'Those that are delivered, cancelled or expired instead' -x -a 'pending delivered cancelled expired'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l limit -d 'At most so many' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l skip -d 'Pass over the first N' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -s w -l watch -d 'Look again and again until ^C'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "delayed list"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l delay -d 'Deliver so long from now' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l at -d 'Deliver at a time, a day, or +1h' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l shift -d 'Deliver so much later, or as -30m earlier' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l all -d 'All that wait in the topic, as far as filters let them'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l where -d 'Only those that fit, as in \'json.total>40\'' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l partition -d 'Only those of this partition' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l from -d 'Only those due at a time, +1h, or later' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l to -d 'Only those due before a time, a day, or +1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l limit -d 'At most so many, the next due first' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed reschedule"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "delayed reschedule"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed stats"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l buckets -d 'The nearest N of ten seconds to a year' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "delayed timeline"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "delayed timeline"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -a browse -d 'Show the dead letters of a topic that were not sent back.'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -a describe -d 'Show dead letters in full.'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -a errors -d 'Show why the dead letters of a topic have failed, and how many.'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -a list -d 'List the topics with dead letters, and how many each has.'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -a redrive -d 'Send dead letters back to where they came from.'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -a sample -d 'Show some of the newest dead letters in full.'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l error -d 'Only those that failed with this in it' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l group -d 'Only those that failed in this group' -x -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l from -d 'Only those since a time, a day, or -1h' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l to -d 'Only those before a time, a day, or -1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l where -d 'Only those that fit, as in \'json.total>40\'' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l limit -d 'At most so many' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq browse" "dlq show"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "dlq browse" "dlq show"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "dlq describe"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq errors"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "dlq errors"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "dlq list"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l error -d 'Only those that failed with this in it' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l group -d 'Only those that failed in this group' -x -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l key -d 'Only those with this key' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l header -d 'Only those with this header' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l where -d 'Only those that fit, as in \'json.total>40\'' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l from -d 'Only those since a time, a day, or -1h' -x -a 'earliest latest'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l to -d 'Only those before a time, a day, or -1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l limit -d 'At most so many' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l rate -d 'At most so many in a second' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l target -d 'To this topic, and not where each came from' -x -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq redrive"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "dlq redrive"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l error -d 'Only those that failed with this in it' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -s n -l limit -d 'At most so many' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "dlq sample"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "dlq sample"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a delete -d 'Delete groups without members, and what they have read.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a describe -d 'Show all about groups: their settings, members and lag.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a lag -d 'Show how far behind groups are.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a list -d 'List the groups, with how far behind each is.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a reset -d 'Have a group read on from elsewhere.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a wait -d 'Wait until groups are where they should be.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -a watch -d 'Watch all groups, or the lag of one.'
complete -c goqueue-cli -n '__goqueue_cli_at "group"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group delete"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "group delete"' -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "group describe"' -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -s w -l watch -d 'Look again and again until ^C'
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group lag"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "group lag"' -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -s w -l watch -d 'Look again and again until ^C'
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l topic -d 'Only this one' -x -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l partition -d 'Only this one' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l to -d 'To earliest, latest, an offset, a time, a day, or -1h' -x -a 'earliest latest now'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l shift -d 'So many messages forward, or back with a minus' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l create -d 'Make the group, where there is none yet'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group reset"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "group reset"' -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l for -d 'What to wait for' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group wait"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "group wait"' -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "group watch"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "group watch"' -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l key -d 'The key of every message' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l key-separator -d 'Key and value are what stands before and behind the first TEXT' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l header -d 'A header of every message' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l partition -d 'The partition of every message' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l priority -d 'critical, high, normal, low or background, or 0 to 4' -x -a 'critical high normal low background'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l delay -d 'Deliver every message so long after it is stored' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l at -d 'Deliver every message at a time, a day, or +1h' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l file -d 'The lines of a file' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l whole -d 'One message for each file, or of all of stdin'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l jsonl -d 'Lines are objects, as `consume -o jsonl` writes them'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l keep-partitions -d 'Publish an object to the partition that it names, with --jsonl'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l template -d 'Make messages of TEXT' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l first -d 'What %n begins with' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l seed -d 'Make the same messages whenever N is the same' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l count -d 'End after N messages' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l rate -d 'Publish N messages a second' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l transactional-id -d 'Publish all of it in one transaction, or nothing' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "publish" "produce"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "publish" "produce"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a compact -d 'Compact topics now: of messages with the same key only the latest stays.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a create -d 'Create topics.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a delete -d 'Delete topics and all of their messages.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a describe -d 'Show all about topics.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a edit -d 'Change settings of topics.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a list -d 'List the topics, with their sizes and rates.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a priorities -d 'Show what is ready, in hand and was handed out of each priority.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -a watch -d 'Watch the topics: what comes in, and how they grow.'
complete -c goqueue-cli -n '__goqueue_cli_at "topic"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic compact"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "topic compact"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l partitions -d 'How many each topic has' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l set -d 'A setting of each topic' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic create"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic delete"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "topic delete"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "topic describe"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l set -d 'A setting of each topic' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic edit" "topic alter"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "topic edit" "topic alter"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l internal -d 'List the topics too that the broker keeps for itself'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -s w -l watch -d 'Look again and again until ^C'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -s g -l group -d 'As this group has them, not all of them' -x -a '(__goqueue_cli_live groups)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic priorities"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -ge 0 "topic priorities"' -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l internal -d 'List the topics too that the broker keeps for itself'
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "topic watch"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction"' -a abort -d 'Abort open transactions: nobody ever sees anything of them.'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction"' -a describe -d 'Show all about transactions, and what happens next.'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction"' -a list -d 'List the open transactions, the oldest first.'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l transaction -d 'Only if it is this one, as in 7-3' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l reason -d 'Why' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction abort"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l topic -d 'Only those that have touched this topic' -x -a '(__goqueue_cli_live topics)'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l state -d 'Only those in it' -x -a 'ongoing prepare_commit prepare_abort empty complete_commit complete_abort'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l all -d 'Also the ids of which nothing is open, the latest used first'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l limit -d 'At most so many' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -s w -l watch -d 'Look again and again until ^C'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "transaction list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l dry-run -d 'Only show what would be done'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -s s -l server -d 'The broker' -x
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -s c -l context -d 'The context to use' -x -a '(__goqueue_cli_live contexts)'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l timeout -d 'How long to wait' -x
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-cli -n '__goqueue_cli_at "undo"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-cli -n '__goqueue_cli_place -eq 0 "undo"' -F
