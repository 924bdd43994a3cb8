import { usage } from '../../../core/usage-error.ts';
import type { Definition } from '../../../definitions/definition.ts';
import { suggestName } from '../../../definitions/suggest-name.ts';
import type { LocalSettings } from '../../../settings/settings.ts';

/** What `--definition` names: one of ours, or the id of a type that only the service knows. */
export type NamedDefinition =
  | { readonly kind: 'known'; readonly id: string; readonly definition: Definition }
  | { readonly kind: 'foreign'; readonly id: string };

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** By name or by id. Throws USAGE, naming what there is, for what is neither. */
export function definitionNamed({ definitions }: LocalSettings, text: string): NamedDefinition {
  const known = [...definitions.values()];
  const found = known.find(({ name, id }) => name === text || id.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return { kind: 'known', id: found.id, definition: found };
  if (uuid.test(text)) return { kind: 'foreign', id: text.toLowerCase() };
  const names = known.map(({ name }) => name);
  const suggestion = suggestName(text, names);
  throw usage(
    `--definition: expected ${names.join(', ')} or the id of another connector type, got "${text}"${suggestion}`,
  );
}
