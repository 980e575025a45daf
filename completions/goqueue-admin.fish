# Completes goqueue-admin in fish; `goqueue-admin completion fish` writes it.

# The commands so far, and how many other words there are behind them.
function __goqueue_admin_path
    set -l taking --api-key --api-key-file --color --confirm --context --every --output --server --severity --sort-by --theme --timeout --unset -c -o -s
    set -l paths 'broker' 'broker describe' 'broker watch' 'completion' 'config' 'config create' 'config delete' 'config describe' 'config edit' 'config list' 'config use' 'config view' 'dashboard' 'doctor' 'rebalance' 'rebalance describe' 'rebalance list' 'rebalance watch'
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

function __goqueue_admin_at
    set -l found (__goqueue_admin_path)
    contains -- "$found[1]" $argv
end

function __goqueue_admin_place
    set -l found (__goqueue_admin_path)
    contains -- "$found[1]" $argv[3..-1]; and test $found[2] $argv[1] $argv[2]
end

function __goqueue_admin_live
    set -l typed (commandline -ct | string replace -r '^--[^=]*=' '')
    goqueue-admin __complete $argv[1] "$typed" (commandline -opc)[2..-1] 2>/dev/null
end

complete -c goqueue-admin -f
complete -c goqueue-admin -n '__goqueue_admin_at ""' -a broker -d 'See what a broker is, what it has and how fast it goes.'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -a completion -d 'Write what completes this program in a shell.'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -a config -d 'Choose the broker, and keep how it is spoken to.'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -a dashboard -d 'Show the broker on a screen that is always current.'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -a doctor -d 'Find what is wrong, and say what to do about it.'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -a rebalance -d 'See how groups share their partitions, and what a rebalance waits for.'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at ""' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l version -d 'Print the version and exit'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -l debug -d 'Show where an error comes from'
complete -c goqueue-admin -n '__goqueue_admin_at ""' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "broker"' -a describe -d 'Show what a broker is and has.'
complete -c goqueue-admin -n '__goqueue_admin_at "broker"' -a watch -d 'Watch how fast a broker goes.'
complete -c goqueue-admin -n '__goqueue_admin_at "broker"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "broker describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "broker watch"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "completion"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_place -eq 0 "completion"' -a 'bash zsh fish'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a create -d 'Create a context.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a delete -d 'Delete contexts, and the keys that they hold.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a describe -d 'Show all about contexts.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a edit -d 'Change a context.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a list -d 'List the contexts.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a use -d 'Make a context the current one.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -a view -d 'Show what is in effect, and where it comes from.'
complete -c goqueue-admin -n '__goqueue_admin_at "config"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -s s -l server -d 'Where its broker is' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -l api-key -d 'What its broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -l timeout -d 'How long to wait for its broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -s o -l output -d 'How to print what it answers' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -l protected -l no-protected -d 'Ask for the name before anything is destroyed'
complete -c goqueue-admin -n '__goqueue_admin_at "config create"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -s y -l yes -d 'Do it without asking'
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -l confirm -d 'Do it without asking, in a protected context too' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "config delete"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_place -ge 0 "config delete"' -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "config describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "config describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "config describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "config describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_place -ge 0 "config describe"' -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -l unset -d 'What to leave to the default' -x -a 'server api-key api-key-file timeout output protected'
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -s s -l server -d 'Where its broker is' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -l api-key -d 'What its broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -l timeout -d 'How long to wait for its broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -s o -l output -d 'How to print what it answers' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -l protected -l no-protected -d 'Ask for the name before anything is destroyed'
complete -c goqueue-admin -n '__goqueue_admin_at "config edit"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_place -eq 0 "config edit"' -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "config list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "config list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "config list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "config list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "config use"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_place -eq 0 "config use"' -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l show-origin -d 'Show where each value comes from'
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "config view"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l read-only -d 'Offer nothing that changes anything'
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l theme -d 'The colours' -x
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l every -d 'How often the broker is asked' -x
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "dashboard"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l severity -d 'End with 1 from here on' -x -a 'critical warning note'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l checks -d 'Show what was looked at, and not what was found'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "doctor"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance"' -a describe -d 'Show who has what in a group, and what is to be given up.'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance"' -a list -d 'List how the groups were rebalanced.'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance"' -a watch -d 'Watch the rebalances of all groups.'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance describe"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_place -ge 0 "rebalance describe"' -a '(__goqueue_admin_live groups)'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance list"' -s h -l help -d 'Show this message and exit'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l every -d 'How long to wait between two looks' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -s s -l server -d 'The broker' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -s c -l context -d 'The context to use' -x -a '(__goqueue_admin_live contexts)'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l no-headers -d 'Leave out the line of titles'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l sort-by -d 'Sort by a field or a title of a column' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l timeout -d 'How long to wait' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l api-key -d 'What the broker knows you by' -x
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l api-key-file -d 'The file that has the key' -r -F
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -l color -d 'When to use colours' -x -a 'auto always never'
complete -c goqueue-admin -n '__goqueue_admin_at "rebalance watch"' -s h -l help -d 'Show this message and exit'
