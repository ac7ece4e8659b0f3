"""The benchmark of packed texts trains on the same texts in every form."""

from benchmarks import packing


def test_every_form_has_all_texts(monkeypatch):
    for name, value in {"TEXTS": 80, "LONGEST": 24, "BATCH": 16}.items():
        monkeypatch.setattr(packing, name, value)
    texts, labels = packing.draw_texts()
    forms = [packing.pad(texts, labels, is_sorted=s) for s in (False, True)]
    forms.append(packing.pack(texts, labels, 1))
    for batches in forms:
        assert sum(last.sum() for *_, last in batches) == 80
        words = sum((rows > 0).sum() for (rows, _), *_ in batches)
        assert words == sum(map(len, texts))
