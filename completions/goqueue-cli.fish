# Completes goqueue-cli in fish; `goqueue-cli completion fish` writes this file.

function _goqueue_cli
    set -l token (commandline -ct)
    set -l prefix (string match -r -- '^--[^=]*=' $token)
    set -l found (goqueue-cli __complete (commandline -cp | string collect) 2>/dev/null)
    switch "$found[1]"
        case :files
            __fish_complete_path (string replace -r -- '^--[^=]*=' '' $token)
        case :directories
            __fish_complete_directories (string replace -r -- '^--[^=]*=' '' $token)
        case '?*'
            printf '%s\n' "$prefix"$found
    end
end

complete -c goqueue-cli -f -a '(_goqueue_cli)'
