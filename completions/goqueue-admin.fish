# Completes goqueue-admin in fish; `goqueue-admin completion fish` writes this file.

function _goqueue_admin
    set -l token (commandline -ct)
    set -l prefix (string match -r -- '^--[^=]*=' $token)
    set -l found (goqueue-admin __complete (commandline -cp | string collect) 2>/dev/null)
    switch "$found[1]"
        case :files
            __fish_complete_path (string replace -r -- '^--[^=]*=' '' $token)
        case :directories
            __fish_complete_directories (string replace -r -- '^--[^=]*=' '' $token)
        case '?*'
            printf '%s\n' "$prefix"$found
    end
end

complete -c goqueue-admin -f -a '(_goqueue_admin)'
