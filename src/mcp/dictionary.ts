import { describeEntity } from './describe-entity.ts';
import type { ShownConnector, ShownEntities } from './shown-entities.ts';

const scheme = 'connector-sync://dictionary/';
const mostListed = 200;
/** A longer one is cut: `list_entities` has each entity. */
const mostChars = 200_000;

/** The data dictionaries of connectors as resources, a page of them. `after`: the last connector of the page before. */
export function listDictionaries({ connectors }: ShownEntities, after: string) {
  const left = connectors
    .filter(({ name }) => name > after)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const page = left.slice(0, mostListed);
  return {
    resources: page.map(({ name, definition }) => ({
      uri: `${scheme}${name}`,
      name: `${name} data dictionary`,
      description: `Entities and fields of ${name} (${definition.title}), and what they mean`,
      mimeType: 'text/markdown',
    })),
    ...(page.length < left.length ? { nextCursor: page.at(-1)?.name ?? '' } : {}),
  };
}

/** In Markdown; null: there is none at this address. */
export function readDictionary(shown: ShownEntities, uri: string): string | null {
  const connector = shown.connectors.find(({ name }) => uri === `${scheme}${name}`);
  if (connector === undefined) return null;
  const text = dictionaryOf(shown, connector);
  return text.length <= mostChars
    ? text
    : `${text.slice(0, mostChars)}\n\n[Cut here: list_entities describes each entity.]\n`;
}

function dictionaryOf(shown: ShownEntities, connector: ShownConnector): string {
  const read = shown.of(connector).filter(({ target }) => connector.entities.has(target.entity.name));
  const sections = read.map((entity) => {
    const { about, key, joins, fields } = describeEntity(entity, null);
    return [
      `## ${entity.target.name}`,
      '',
      `${about === null ? '' : `${about}. `}Key: ${key.join(', ')}.${joins.map((join) => ` ${join}.`).join('')}`,
      '',
      ...fields.map(
        (field) => `- ${field.name} (${field.type})${field.about === '' ? '' : `: ${field.about}`}`,
      ),
    ].join('\n');
  });
  return [`# ${connector.name}: ${connector.definition.title}`, ...sections].join('\n\n');
}
