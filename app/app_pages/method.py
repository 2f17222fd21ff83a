"""Method: what every number means, how the choice is made, and what this tool cannot know."""

from app import method_text, ui

w = ui.words()
ui.say(w.text("Method"), level=2)
chapters = {
    w.text("What is measured"): method_text.metrics(w),
    w.text("What counts as kept"): method_text.goodput(w),
    w.text("How the choice is made"): method_text.choice(w),
    w.text("What this tool can't know"): method_text.limits(w),
    w.text("Sources"): method_text.sources(w),
}
for title, entries in chapters.items():
    ui.say(title, level=3)
    for term, meaning in entries:
        ui.define(term, meaning)
