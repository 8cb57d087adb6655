"""Charts, tables and pages of results: whatever measured them, they are drawn the same way."""

from multiway.report.demo import DemoFindings, demo_page
from multiway.report.diagnosis import BADGES, diagnosis_section
from multiway.report.dot_plot import draw_dots
from multiway.report.figures import draw
from multiway.report.findings import Findings, insert_lines, read_findings
from multiway.report.heat_map import draw_heat_map
from multiway.report.image_grids import draw_corruption_examples, draw_marked, draw_saliency
from multiway.report.landscape_page import MOST_LANDSCAPES, write_landscape_page
from multiway.report.line_chart import draw_lines
from multiway.report.markdown import study_markdown, write_markdown
from multiway.report.page import Picture, Section, write_page
from multiway.report.standing import standings
from multiway.report.study_page import write_study_page
from multiway.report.style import save_both
from multiway.report.surfaces import draw_landscape
from multiway.report.tables import Table, result_tables
from multiway.report.trade_off import draw_trade_off

__all__ = [
    "BADGES",
    "MOST_LANDSCAPES",
    "DemoFindings",
    "Findings",
    "Picture",
    "Section",
    "Table",
    "demo_page",
    "diagnosis_section",
    "draw",
    "draw_corruption_examples",
    "draw_dots",
    "draw_heat_map",
    "draw_landscape",
    "draw_lines",
    "draw_marked",
    "draw_saliency",
    "draw_trade_off",
    "insert_lines",
    "read_findings",
    "result_tables",
    "save_both",
    "standings",
    "study_markdown",
    "write_landscape_page",
    "write_markdown",
    "write_page",
    "write_study_page",
]
