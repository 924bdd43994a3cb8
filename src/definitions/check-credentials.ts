import { checkRemoteName, type Note } from './check-names.ts';
import type { DefinitionFile } from './definition-file.ts';

/** The ways to sign in: each has a title of its own, and fields of which one at least is always there. */
export function checkCredentials(file: DefinitionFile, note: Note): void {
  const titles = file.credentials.map(({ title }) => title);
  for (const [index, { title, fields }] of file.credentials.entries()) {
    const at = ['credentials', index];
    if (titles.indexOf(title) !== index) {
      note([...at, 'title'], `${JSON.stringify(title)} is the title of two ways to sign in`);
    }
    for (const name of Object.keys(fields)) {
      checkRemoteName(name, [...at, 'fields', name], note);
    }
    if (!Object.values(fields).some(({ required }) => required)) {
      note([...at, 'fields'], 'expected at least one field that is required', [...at, 'fields']);
    }
  }
}
