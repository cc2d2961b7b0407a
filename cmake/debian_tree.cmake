# CPack runs this between installing the tree and packing it: Debian wants a file named copyright, and manual pages and
# changelogs compressed.
set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
file(READ ${tree}/doc/tenon/LICENSE licence)
file(READ ${tree}/doc/tenon/NOTICE notice)
file(WRITE ${tree}/doc/tenon/copyright "${licence}\n${notice}")
file(REMOVE ${tree}/doc/tenon/LICENSE ${tree}/doc/tenon/NOTICE)
file(RENAME ${tree}/doc/tenon/CHANGELOG.md ${tree}/doc/tenon/changelog)
execute_process(COMMAND gzip -9n ${tree}/doc/tenon/changelog ${tree}/man/man1/tenon.1 COMMAND_ERROR_IS_FATAL ANY)
