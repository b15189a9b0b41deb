"""Remove near-duplicate rows from a pandas and a Polars DataFrame.

    python examples/dataframe.py

The kept rows come back as the same type. Here: questions of a support desk, where the newest of
several almost equal ones stays, and those in another language are never compared.
"""

from __future__ import annotations

import pandas as pd
import polars as pl

import neardup
import neardup.integrations.pandas  # df.neardup

COLUMNS = ("ticket", "day", "language", "question")
TICKETS = [
    (1, 3, "en", "How can I change the address that my invoices are sent to every month?"),
    (2, 5, "en", "how can i change the address that my invoices are sent to every month"),
    (3, 9, "en", "How can I change the address that my invoices are sent to every month, please?"),
    (4, 4, "en", "The app closes as soon as I open the second page of my report."),
    (5, 6, "de", "Die App schließt sich, sobald ich die zweite Seite des Berichts öffne."),
    (6, 7, "en", "The app closes as soon as I open the third page of my report."),
    (7, 8, "de", None),
]


def clean(tickets: pd.DataFrame | pl.DataFrame) -> neardup.Result:
    return neardup.dedup(
        tickets,
        text="question",
        id="ticket",
        keep="max:day",
        within="language",
        shingle="word:2",  # questions are short
        threshold=0.75,
    )


def main() -> None:
    in_pandas = pd.DataFrame(TICKETS, columns=COLUMNS)
    result = clean(in_pandas)
    print(result.summary())
    for removed in result.removed:
        print(result.why(removed.id))
    kept = result.filter(in_pandas)
    print(kept[["ticket", "question"]].to_string(index=False))
    assert list(kept["ticket"]) == [3, 4, 5, 6]

    # The same as a method of the frame; tickets without a question stay there.
    by_method = in_pandas.neardup.drop_duplicates(
        "question", keep="max:day", within="language", shingle="word:2", threshold=0.75
    )
    assert list(by_method["ticket"]) == [3, 4, 5, 6, 7]

    in_polars = pl.DataFrame(TICKETS, schema=COLUMNS, orient="row")
    assert clean(in_polars).filter(in_polars)["ticket"].to_list() == [3, 4, 5, 6]


if __name__ == "__main__":
    main()
