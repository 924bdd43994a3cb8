import { checkKnown, type Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './yaml-places.ts';
import { suggestName } from './suggest-name.ts';

const typeByRole = { name: 'string', contentType: 'string', size: 'integer' } as const;

/** What a record says about its file stands in its fields; its parameters and their key are checked as those of `get` are. */
export function checkDownload(entity: EntityFile, entityAt: YamlPath, note: Note): void {
  const { download } = entity.actions;
  if (download === undefined) return;
  const at = [...entityAt, 'actions', 'download'];
  // Required ones that it lacks are told already.
  if (
    Object.keys(download.key).length === 0 &&
    !Object.values(download.params).some(({ required }) => required)
  ) {
    const message = 'expected at least one parameter: nothing else says which file is asked for';
    note([...at, 'key'], message, at);
  }
  const fields = Object.keys(entity.fields);
  const fieldAt = (field: string): YamlPath => [...entityAt, 'fields', field];
  for (const role of ['name', 'contentType', 'size'] as const) {
    const field = download.file[role];
    if (field === null) continue;
    const here = [...at, 'file', role];
    const type = Object.hasOwn(entity.fields, field) ? entity.fields[field] : undefined;
    if (type === undefined) {
      note(here, `no such field: ${JSON.stringify(field)}${suggestName(field, fields)}`, fieldAt(field));
    } else if (type !== typeByRole[role]) {
      note(here, `expected a field of type ${typeByRole[role]}, ${field} is of type ${type}`, fieldAt(field));
    }
  }
  const { version } = download.file;
  const versionAt = [...at, 'file', 'version'];
  checkKnown(version, fields, 'field', versionAt, note, (field) => [fieldAt(field)]);
  version.forEach((field, index) => {
    if (version.indexOf(field) !== index) note([...versionAt, index], `${field} is named twice`);
  });
}
