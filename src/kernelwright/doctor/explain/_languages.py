# SPDX-License-Identifier: MIT
"""What the C library, GCC, ld and bash say in other languages, as they say it in English: signs are written in that.

The sentences are those of their catalogues (libc, gcc, binutils, bash), in lower case; older releases' words too.
"""

from __future__ import annotations

_SAID = {
    ": no such file or directory": (
        " : aucun fichier ou dossier de ce type",
        " : aucun fichier ou répertoire de ce type",
    ),
    ": command not found": (" : commande introuvable",),
    "no such file or directory": (
        "没有那个文件或目录",
        "沒有此一檔案或目錄",
        "datei oder verzeichnis nicht gefunden",
        "aucun fichier ou dossier de ce type",
        "aucun fichier ou répertoire de ce type",
        "no existe el fichero o el directorio",
        "no existe el archivo o el directorio",
        "arquivo ou diretório inexistente",
        "arquivo ou diretório não encontrado",
        "file o directory non esistente",
        "нет такого файла или каталога",
        "немає такого файла або каталогу",  # noqa: RUF001
        "そのようなファイルやディレクトリはありません",
        "그런 파일이나 디렉터리가 없습니다",
        "그런 파일이나 디렉터리가 없음",
        "nie ma takiego pliku ani katalogu",
        "böyle bir dosya ya da dizin yok",
        "bestand of map bestaat niet",
        "adresář nebo soubor neexistuje",
    ),
    "command not found": (
        "未找到命令",
        "指令找不到",
        "kommando nicht gefunden",
        "befehl nicht gefunden",
        "commande introuvable",
        "orden no encontrada",
        "comando não encontrado",
        "comando non trovato",
        "команда не найдена",
        "команду не знайдено",
        "コマンドが見つかりません",
        "명령어를 찾을 수 없음",
        "명령을 찾을 수 없습니다",
        "nie znaleziono polecenia",
        "opdracht niet gevonden",
        "příkaz nenalezen",
    ),
    "permission denied": (
        "权限不够",
        "拒絕不符權限的操作",
        "keine berechtigung",
        "permission non accordée",
        "permiso denegado",
        "permissão negada",
        "permesso negato",
        "отказано в доступе",
        "許可がありません",
        "허가 거부",
        "brak dostępu",
        "toegang geweigerd",
    ),
    "no space left on device": (
        "设备上没有空间",
        "裝置上已無多餘空間",
        "auf dem gerät ist kein speicherplatz mehr verfügbar",
        "aucun espace disponible sur le périphérique",
        "no queda espacio en el dispositivo",
        "não há espaço disponível no dispositivo",
        "spazio esaurito sul device",
        "на устройстве не осталось свободного места",
        "デバイスに空き領域がありません",
        "장치에 남은 공간이 없음",
    ),
    "cannot open shared object file": (
        "无法打开共享对象文件",
        "無法開啟共用物件",
        "kann die shared-object-datei nicht öffnen",
        "ne peut ouvrir le fichier d'objet partagé",
        "no se puede abrir el fichero del objeto compartido",
        "não é possível abrir arquivo compartilhado",
        "impossibile aprire il file oggetto condiviso",
        "невозможно открыть разделяемый объектный файл",
        "共有オブジェクトファイルを開けません",
    ),
    "cannot allocate memory": ("无法分配内存", "ne peut allouer de la mémoire", "メモリを確保できません"),
    "killed": ("已杀死", "getötet"),
    "cannot find -l": ("找不到 -l", "ne peut trouver -l"),
    "fatal error:": (
        "致命错误:",
        "嚴重錯誤:",
        "schwerwiegender fehler:",
        "erreur fatale:",
        "erreur fatale :",
        "error fatal:",
        "error grave:",
        "erro fatal:",
        "фатальная ошибка:",
        "критична помилка:",
        "致命的エラー:",
        "ölümcül hata:",
        "fatale fout:",
    ),
    "error:": ("错误:", "錯誤:", "fehler:", "erreur:", "erreur :", "ошибка:", "エラー:"),
}


def foreign(text: str) -> list[tuple[str, str]]:
    """(what stands in a text in small letters, what it is in English), in the order in which to replace them."""
    return [(said, english) for english, several in _SAID.items() for said in several if said in text]
