"""Letters for pictures that are made of dots: ASCII, five columns a letter, the lowest bit of a column on top."""

_COLUMNS = (
    "0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649552250 0005030000 "  # space to '
    "001c224100 0041221c00 14083e0814 08083e0808 0050300000 0808080808 0060600000 2010080402 "  # ( to /
    "3e5149453e 00427f4000 4261514946 2141454b31 1814127f10 2745454539 3c4a494930 0171090503 "  # 0 to 7
    "3649494936 064949291e 0036360000 0056360000 0814224100 1414141414 0041221408 0201510906 "  # 8 to ?
    "324979413e 7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e4149497a "  # @ to G
    "7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e "  # H to O
    "7f09090906 3e4151215e 7f09192946 4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f "  # P to W
    "6314081463 0708700807 6151494543 007f414100 0204081020 0041417f00 0402010204 4040404040 "  # X to _
    "0001020400 2054545478 7f48444438 3844444420 384444487f 3854545418 087e090102 18a4a4a47c "  # ` to g
    "7f08040478 00447d4000 4080847d00 7f10284400 00417f4000 7c04180478 7c08040478 3844444438 "  # h to o
    "fc24242418 18242418fc 7c08040408 4854545420 043f444020 3c4040207c 1c2040201c 3c4030403c "  # p to w
    "4428102844 1ca0a0a07c 4464544c44 0008364100 00007f0000 0041360800 1008081008"  # x to ~
)
WIDTH, HEIGHT = 6, 8
"""Of a letter in dots, with the space to the next one."""

_GLYPHS = tuple(bytes.fromhex(columns) for columns in _COLUMNS.split())
_UNKNOWN = _GLYPHS[ord("?") - ord(" ")]

assert len(_GLYPHS) == ord("~") - ord(" ") + 1


def dots(text: str) -> list[tuple[int, int]]:
    """Where the dots of a line of text are, from its upper left corner. What is not ASCII is a question mark."""
    found = []
    for number, character in enumerate(text):
        place = ord(character) - ord(" ")
        glyph = _GLYPHS[place] if 0 <= place < len(_GLYPHS) else _UNKNOWN
        for column, bits in enumerate(glyph):
            found += [(number * WIDTH + column, row) for row in range(HEIGHT) if bits >> row & 1]
    return found
