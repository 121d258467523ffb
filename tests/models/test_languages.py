"""The built-in model reads other scripts: a question finds its text by its vector alone."""

from __future__ import annotations

import pytest
from tests.models.vendors import unpacked

from lorelog.models.embed.builtin import BuiltinEmbedder

NOTES = {
    "Chinese": "数据库每天凌晨两点备份，保存三十天。|登录页面的按钮颜色改成了蓝色。|我们什么时候复制数据？",
    "Japanese": "データベースは毎日午前二時にバックアップされる。|ディスクの空きが足りず、デプロイに失敗した。|データベースのバックアップはいつですか。",
    "Korean": "데이터베이스는 매일 새벽 두 시에 백업되고 삼십 일 동안 보관된다.|로그인 화면의 버튼 색을 파란색으로 바꾸었다.|백업은 언제 하나요?",
    "Arabic": "يتم نسخ قاعدة البيانات احتياطيا كل ليلة.|فشل النشر لأن مساحة القرص غير كافية.|متى يتم إنشاء النسخة الاحتياطية؟",
}
"""Two notes in a language, and a question that the first answers."""


@pytest.mark.parametrize("language", NOTES)
def test_a_question_is_nearest_to_its_answer(language: str, embedder: BuiltinEmbedder) -> None:
    """The vector of a question is nearer to the note that answers it than to another in the same language, by a clear margin."""
    *notes, question = NOTES[language].split("|")
    asked = unpacked(embedder.embed_query(question))
    told = [unpacked(vector) for vector in embedder.embed_documents(notes).vectors]
    answer, other = (sum(a * b for a, b in zip(asked, vector, strict=True)) for vector in told)
    assert answer > other + 0.1
