import { resolve } from 'node:path';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../core/json.ts';
import type { ConnectorId } from '../../../core/names.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import { credentialProblems, shapeText } from '../../../definitions/params.ts';
import type { Definition } from '../../../definitions/definition.ts';
import { suggestName } from '../../../definitions/suggest-name.ts';
import { readSecretFile } from '../../../settings/config-files.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import { openAdministration } from '../../../source/api/open-api-client.ts';
import { printable } from '../../../telemetry/format.ts';
import { openPatientApp } from '../../output/show-run.ts';
import { command, type CommandContext, readInput } from '../../command.ts';

export const createConnector = command({
  description: 'Create a connector; prints its id and the config lines for it.',
  options: {
    '--workspace <name>': { text: 'the workspace; some APIs create a missing one', isRequired: true },
    '--definition <name>': {
      text: 'its type: the name of a definition, or its id at the API',
      isRequired: true,
    },
    '--name <text>': 'its display name (default: chosen by the API)',
    '--credentials-file <file>':
      'a JSON object of strings, in a file that only you can read; - or left out: standard input',
  },
  help: `
The credentials are those of the third party. Their form is checked before anything is sent. "connector-sync serve" asks the
third party before it creates the connector; with another API, the first call may be what shows whether they are right. The request is sent once: if an error leaves open whether it succeeded, look at the list first.

Examples:
  $ connector-sync connectors create --workspace acme --definition email-marketing --credentials-file mail.json
  $ vault read -format=json secret/notes | connector-sync connectors create --workspace acme --definition workspace-notes`,
  run: async (context, flags) => {
    const settings = await context.settings('api', 'access');
    const { terminal, signal } = context;
    const { workspace, name = null } = flags;
    for (const [flag, text] of Object.entries({ '--workspace': workspace, '--name': name ?? 'none' })) {
      if (text.trim() === '') throw usage(`${flag}: expected a name, got nothing.`);
    }
    const named = definitionNamed(settings, flags.definition);
    const known = named.kind === 'known' ? named.definition : null;
    const credentials = await readCredentials(context, flags.credentialsFile ?? null, known);
    await using app = await openPatientApp(context, settings, 'connectors create');
    const administration = openAdministration(app.client, settings.api.baseUrl);
    // Of a type that only the service knows, it says at least whether there is one.
    if (known === null) await administration.definition(named.id, signal);
    const created = await administration.createConnector(
      { workspace, definitionId: named.id, name, credentials },
      signal,
    );
    const lines = known === null ? [] : configLines(settings, known.name, created.id);
    terminal.printJson({
      connector: { ...created, workspace, definition: known?.name ?? null, definitionId: named.id },
      config: lines.join('\n'),
    });
    const label = created.name === null ? '' : ` (${printable(created.name)})`;
    terminal.print(`Created ${created.id}${label} in workspace ${printable(workspace)}.`);
    if (known === null) {
      terminal.print('There is no definition of its type here, so it cannot be synced yet.');
      return;
    }
    terminal.print(`To sync it, add this below "connectors:" in ${settings.file}:`, ...lines);
  },
});

/** An entry of the config, indented as it stands below `connectors:`. */
function configLines(settings: LocalSettings, definition: string, id: ConnectorId): readonly string[] {
  const [sink = 'main'] = settings.sinks.keys();
  return [
    `  ${freeName(settings, definition)}:`,
    `    definition: ${definition}`,
    // Quoted: an id of digits alone would be read as a number.
    `    id: "${id}"`,
    `    sink: ${sink}`,
  ];
}

/** The definition's name, with a number where a connector of the config has it. */
function freeName({ connectors }: LocalSettings, definition: string): string {
  const taken = new Set<string>(connectors.keys());
  let name = definition;
  for (let number = 2; taken.has(name); number += 1) name = `${definition}-${number}`;
  return name;
}

const maxBytes = 65_536;

/**
 * Credentials for a new connector: from a file that only its owner can read, or from standard input (`-`, or no file).
 * Their texts are secrets from here on. Null: a type of which nothing is known, and nothing was given. Throws USAGE,
 * quoting nothing.
 */
async function readCredentials(
  context: CommandContext,
  file: string | null,
  definition: Definition | null,
): Promise<JsonObject | null> {
  const needsNone = definition === null || definition.credentials.length === 0;
  if (file === null && (needsNone || context.input().isTTY === true)) {
    if (needsNone) return null;
    const ways = definition.credentials.map(shapeText).join(' or ');
    throw usage(`A connector of ${definition.name} needs credentials: ${ways}. Give --credentials-file.`);
  }
  const isInput = file === null || file === '-';
  const from = isInput ? 'standard input' : resolve(context.cwd, file);
  const text = isInput ? await readInput(context.input(), maxBytes, context.signal) : textOf(from);
  const credentials = parse(text, from);
  for (const secret of textsIn(credentials)) context.scrubber.register(new Secret(secret));
  if (definition !== null) checkCredentials(definition, credentials, from);
  return credentials;
}

function checkCredentials(definition: Definition, credentials: JsonObject, from: string): void {
  const problems = credentialProblems(definition, credentials);
  if (problems.length === 0) return;
  const texts = problems.map(({ field, message }) => (field === null ? message : `${field}: ${message}`));
  const { credentials: ways } = definition;
  const others = ways.length === 1 ? '' : ` Ways to sign in: ${ways.map(shapeText).join(' or ')}.`;
  throw usage(`The credentials in ${from} cannot be used. ${texts.join(' ')}${others}`);
}

function textOf(file: string): string {
  const read = readSecretFile(file);
  if (read.ok) return read.value;
  throw usage(`--credentials-file: ${read.why}.`);
}

function parse(text: string, from: string): JsonObject {
  const expected = `Expected a JSON object of texts in ${from}, such as {"api_key": "..."}`;
  let value: JsonValue;
  try {
    // `as`: JSON.parse gives JSON and nothing else.
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    // Only the position: the message itself quotes the text, which is secret.
    const [where = ''] = / at position \d+/.exec(error instanceof Error ? error.message : '') ?? [];
    throw usage(`${expected}, got ${text.trim() === '' ? 'nothing' : `invalid JSON${where}`}.`);
  }
  if (!isJsonObject(value)) throw usage(`${expected}, got other JSON.`);
  return value;
}

/** At any depth: what a foreign type takes is known to its service alone. */
function textsIn(value: JsonValue): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** What `--definition` names: one of ours, or the id of a type that only the service knows. */
type NamedDefinition =
  | { readonly kind: 'known'; readonly id: string; readonly definition: Definition }
  | { readonly kind: 'foreign'; readonly id: string };

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** By name or by id. Throws USAGE, naming what there is, for what is neither. */
export function definitionNamed(
  { definitions }: Pick<LocalSettings, 'definitions'>,
  text: string,
): NamedDefinition {
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
