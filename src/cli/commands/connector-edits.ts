import { existsSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { reachQueues } from '../../app/reach-queues.ts';
import { removeStored, storedConnector, type StoredConnector } from '../../app/remove-connector.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { type ConnectorName, isConnectorName } from '../../core/names.ts';
import { ProblemsError } from '../../core/problems.ts';
import { Secret } from '../../core/secret.ts';
import { usage } from '../../core/errors.ts';
import { credentialProblems, shapeText } from '../../definitions/params.ts';
import type { Definition } from '../../definitions/definition.ts';
import { suggestName } from '../../definitions/suggest-name.ts';
import { createPrivateDirectory } from '../../files/private-file.ts';
import { replaceText } from '../../files/replace-text.ts';
import { connectorNamed, targetsOfConnector } from '../../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../../settings/settings.ts';
import { type ConfigEdit, freeName, removedConnector } from '../../settings/edit-connectors.ts';
import { readSettings } from '../../settings/load-settings.ts';
import { readSecretFile } from '../../settings/config-files.ts';
import { openAdministration } from '../../source/api/open-api-client.ts';
import { counted, printable, sizeText } from '../../telemetry/format.ts';
import { command, type CommandContext, readInput } from '../command.ts';
import { configFile, registerSecrets } from '../load-config.ts';
import { openPatientApp } from '../output/show-run.ts';
import { countTable } from '../output/text-table.ts';
import { unwritable } from '../output/write-files.ts';

export const createConnector = command({
  description: 'Create a connector; prints its id and the command that adds it to the config.',
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
    const known = named.definition;
    const credentials = await readCredentials(context, flags.credentialsFile ?? null, known);
    await using app = await openPatientApp(context, settings, 'connectors create');
    const administration = openAdministration(app.client, settings.api.baseUrl);
    // Checks that a type that only the service knows exists there.
    if (known === null) await administration.definition(named.id, signal);
    const created = await administration.createConnector(
      { workspace, definitionId: named.id, name, credentials },
      signal,
    );
    const next =
      known === null
        ? null
        : `connectors add ${freeName(settings, known.name)} --definition ${known.name} --id ${created.id}`;
    terminal.printJson({
      connector: { ...created, workspace, definition: known?.name ?? null, definitionId: named.id },
      next,
    });
    const label = created.name === null ? '' : ` (${printable(created.name)})`;
    terminal.print(`Created ${created.id}${label} in workspace ${printable(workspace)}.`);
    terminal.print(
      next === null
        ? 'There is no definition of its type here, so it cannot be synced yet.'
        : `Next: ${context.program} ${next}`,
    );
  },
});

const maxBytes = 65_536;

/**
 * Reads the credentials of a new connector: from a file that only its owner can read, or from standard input (`-`, or
 * no file). The scrubber hides their texts from then on. Null: the type is unknown here, and none were given. Throws
 * USAGE, quoting nothing.
 */
async function readCredentials(context: CommandContext, file: string | null, definition: Definition | null) {
  const needsNone = definition === null || credentialProblems(definition, null).length === 0;
  if (file === null && (needsNone || context.input().isTTY === true)) {
    if (needsNone) return null;
    const ways = definition.credentials.map(shapeText).join(' or ');
    throw usage(`A connector of ${definition.name} needs credentials: ${ways}. Give --credentials-file.`);
  }
  const isInput = file === null || file === '-';
  const from = isInput ? 'standard input' : resolve(context.cwd, file);
  const read = isInput
    ? { ok: true as const, value: await readInput(context.input(), maxBytes, context.signal) }
    : readSecretFile(from);
  if (!read.ok) throw usage(`--credentials-file: ${read.why}.`);
  const credentials = parse(read.value, from);
  for (const secret of textsIn(credentials)) context.scrubber.register(new Secret(secret));
  const problems = definition === null ? [] : credentialProblems(definition, credentials);
  if (problems.length === 0) return credentials;
  const texts = problems.map(({ field, message }) => (field === null ? message : `${field}: ${message}`));
  const ways = definition?.credentials ?? [];
  const others = ways.length === 1 ? '' : ` Ways to sign in: ${ways.map(shapeText).join(' or ')}.`;
  throw usage(`The credentials in ${from} cannot be used. ${texts.join(' ')}${others}`);
}

function parse(text: string, from: string): JsonObject {
  const expected = `Expected a JSON object of texts in ${from}, such as {"api_key": "..."}`;
  let value: JsonValue;
  try {
    // `as`: JSON.parse returns only JSON values.
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    // Only the position is shown: the message itself quotes the text, which is secret.
    const [where = ''] = / at position \d+/.exec(error instanceof Error ? error.message : '') ?? [];
    throw usage(`${expected}, got ${text.trim() === '' ? 'nothing' : `invalid JSON${where}`}.`);
  }
  if (!isJsonObject(value)) throw usage(`${expected}, got other JSON.`);
  return value;
}

/** Collects texts at any depth: only the service knows the format of another type's credentials. */
function textsIn(value: JsonValue): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Finds the type of `--definition` by name or id; `definition` null: only the service knows the type. Throws USAGE with
 * the known names for any other text.
 */
export function definitionNamed({ definitions }: Pick<LocalSettings, 'definitions'>, text: string) {
  const known = [...definitions.values()];
  const found = known.find(({ name, id }) => name === text || id.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return { id: found.id, definition: found };
  if (uuid.test(text)) return { id: text.toLowerCase(), definition: null };
  const names = known.map(({ name }) => name);
  const suggestion = suggestName(text, names);
  throw usage(
    `--definition: expected ${names.join(', ')} or the id of another connector type, got "${text}"${suggestion}`,
  );
}

/**
 * Makes the edit, which is valid. Otherwise its problems are thrown, after a line that says which edit they belong to.
 */
export function checkedHere<Edit extends ConfigEdit>(
  { terminal, scrubber }: CommandContext,
  plan: () => Edit,
) {
  try {
    const edit = plan();
    registerSecrets(edit.settings, scrubber);
    return edit;
  } catch (error) {
    if (error instanceof ProblemsError) {
      terminal.note('Nothing was changed: the config would have these mistakes.');
    }
    throw error;
  }
}

export type FileEdit = Pick<ConfigEdit, 'file' | 'before' | 'after'>;

/** Writes all of these files, or leaves everything as it was. */
export function writeEdits(context: CommandContext, edits: readonly FileEdit[]): void {
  const config = configFile(context);
  const like = existsSync(config) ? config : null;
  const nowMs = context.clock.now();
  const undo: (() => void)[] = [];
  try {
    for (const { file, before, after } of edits) {
      const folder = dirname(file);
      if (!existsSync(folder)) undo.unshift(() => rmdirSync(folder));
      createPrivateDirectory(folder);
      replaceText({ file, before, after, like, nowMs });
      if (before === null) undo.unshift(() => rmSync(file));
      else undo.unshift(() => replaceText({ file, before: after, after: before, like, nowMs }));
    }
    readSettings({ file: config, env: context.env });
  } catch (error) {
    for (const one of undo) one();
    throw unwritable(
      edits.at(-1)?.file ?? config,
      error,
      'Nothing was changed. Edit it where it can be written.',
    );
  }
}

/** Commands that make workers reload the config; none where they watch it. Null: no worker is known. */
export async function reloadCommands(settings: LocalSettings): Promise<readonly string[] | null> {
  await using reached = await reachQueues(settings);
  const workers = (await reached.queues?.workers()) ?? 0;
  if (workers === 0) return null;
  return settings.watch ? [] : ['reload'];
}

export const removeConnector = command({
  description: 'Remove a connector from the config file, whose comments stay; with --data its records too.',
  argument: ['<name>', 'its name in the config; with --data also one that has left it'],
  options: {
    '--data': 'drop all that is stored of it, for good: records, history, files, its sign-in',
    '--yes': 'with --data: do it; without this, only show what would be removed',
  },
  help: `
The config is checked without the connector before anything is written, and the file is replaced as a whole.

With --data its files, its sign-in and its entry go first; workers are asked to read the config again; then the records go,
all at once. A connector that a run holds is refused. Interrupted or killed, run the same command again. Targets of "publish" start a
generation without rows with their next publication; write what "publish schema" made again afterwards. What people did
stays in "actions".

Examples:
  $ connector-sync connectors remove newsletter
  $ connector-sync connectors remove newsletter --data          what would be dropped?
  $ connector-sync connectors remove newsletter --data --yes`,
  run: async (context, flags, text) => {
    const settings = await context.settings();
    const known = isConnectorName(text) ? settings.connectors.get(text) : undefined;
    const { env } = context;
    const edit =
      known === undefined
        ? null
        : checkedHere(context, () => removedConnector({ file: configFile(context), env }, known.name));
    if (!flags.data) {
      const { name, sink } = connectorNamed(settings, text);
      if (edit === null) throw new TypeError(`${name} is in the config and has no place there`);
      writeEdits(context, [edit]);
      const next = (await reloadCommands(edit.settings)) ?? [];
      context.terminal.printJson({ connector: name, file: edit.file, sink: sink.name, next });
      context.terminal.print(
        `${removedText(context, name, edit)} What sink ${sink.name} has of it stays.`,
        ...next.map((one) => `Next: ${context.program} ${one}`),
      );
      return;
    }
    if (!isConnectorName(text)) connectorNamed(settings, text);
    // `as`: any other text was refused.
    const name = text as ConnectorName;
    const stored = await storedConnector(
      name,
      known === undefined ? [...settings.sinks.values()] : [known.sink],
    );
    if (known === undefined && stored.length === 0) {
      throw usage(`Neither the config nor one of its sinks has a connector "${name}".`);
    }
    const leaving = { name, settings, known: known ?? null, edit, stored };
    if (flags.yes) await remove(context, leaving);
    else showWhatWouldGo(context, leaving);
  },
});

interface Leaving {
  readonly name: ConnectorName;
  readonly settings: LocalSettings;
  /** Null: the connector has left the config already. */
  readonly known: ConnectorSettings | null;
  readonly edit: ConfigEdit | null;
  readonly stored: readonly StoredConnector[];
}

async function remove(context: CommandContext, leaving: Leaving): Promise<void> {
  const { terminal, clock, signal, program } = context;
  const { name, settings, known, edit, stored } = leaving;
  const next: string[] = [];
  const endInConfig = async (): Promise<void> => {
    if (edit === null) return;
    writeEdits(context, [edit]);
    next.push(...(await reloaded(context, edit.settings)));
  };
  for (const { sink } of stored) {
    const request = { name, sink, connector: known, settings, clock, signal };
    const signedOut = await removeStored({ ...request, beforeRows: endInConfig });
    if (signedOut?.kind === 'removed' || signedOut?.kind === 'failed') {
      terminal.note('Its sign-in is removed here; end its access at the service too.');
    }
  }
  if (stored.length === 0) await endInConfig();
  const all = stored.flatMap(({ entities }) => entities);
  const rows = all.reduce((sum, one) => sum + one.rows + one.deleted, 0);
  const targets = targetsLeft(leaving);
  next.push(...targets.map((target) => `publish ${target}`));
  const sinks = stored.map(({ sink }) => sink.name);
  terminal.printJson({ connector: name, isDone: true, file: edit?.file ?? null, sinks, rows, targets, next });
  const dropped =
    sinks.length === 0
      ? 'Nothing was stored of it.'
      : `${counted(rows, 'row')} dropped from sink ${sinks.join(', ')}.`;
  terminal.print(
    `${edit === null ? `${name} was not in the config.` : removedText(context, name, edit)} ${dropped}`,
    ...next.map((one) => `Next: ${program} ${one}`),
  );
}

/** Lets workers reload the config before the connector is released: one with the old config would read it again. */
async function reloaded({ signal, terminal }: CommandContext, settings: LocalSettings) {
  await using reached = await reachQueues(settings);
  if (reached.queues === null) return [];
  const { answers, silent } = await reached.queues.reload(signal);
  const refused = answers.filter(({ outcome }) => outcome === 'refused');
  for (const { worker, text } of refused) {
    terminal.note(
      `Worker ${printable(worker)} did not take the config over, and may read the connector again: ${printable(text)}`,
    );
  }
  if (silent > 0) {
    terminal.note(`${counted(silent, 'worker')} did not answer, and may read the connector again.`);
  }
  return silent + refused.length > 0 ? ['reload'] : [];
}

/** Shows the effect without making the change: exit code 0. */
function showWhatWouldGo({ terminal, program, cwd }: CommandContext, leaving: Leaving): void {
  const { name, known, stored, edit } = leaving;
  const again = `${program} connectors remove ${name} --data --yes`;
  const targets = targetsLeft(leaving);
  terminal.printJson({
    connector: name,
    isDone: false,
    file: edit?.file ?? null,
    stored: stored.map(({ sink, ...one }) => ({ sink: sink.name, ...one })),
    targets,
    command: again,
  });
  terminal.print(
    ...(stored.length === 0 ? [`${name}: nothing is stored of it.`] : []),
    ...stored.flatMap((one) => storedLines(name, one, known)),
    ...(edit === null ? [] : [`  Its entry in ${relative(cwd, edit.file) || edit.file} would go.`]),
    ...(targets.length === 0 ? [] : [`  Its rows leave ${targets.join(', ')} with the next publication.`]),
    `Nothing was changed. To do it: ${again}`,
  );
}

function storedLines(
  name: ConnectorName,
  { sink, entities, runs }: StoredConnector,
  known: ConnectorSettings | null,
): readonly string[] {
  const dropped = entities.map((one) => ({
    ...one,
    listings: one.partitions,
    files: one.files?.stored ?? 0,
  }));
  const bytes = entities.reduce((sum, { files }) => sum + (files?.bytes ?? 0), 0);
  const folder =
    known?.downloads?.directory ?? 'the folder that "downloads" named; remove them there by hand';
  return [
    `${name} in sink ${sink.name} would be dropped for good:`,
    ...countTable(dropped, 'rows', 'deleted', 'listings', 'quarantined', 'files'),
    `  The reports of ${counted(runs, 'run')} too.`,
    ...(bytes > 0 ? [`  Its files (${sizeText(bytes)}) are in ${folder}.`] : []),
  ];
}

/** Targets that it is published into, and that still have another connector. */
function targetsLeft({ edit, settings, name }: Leaving): readonly string[] {
  const { publish } = edit?.settings ?? settings;
  return targetsOfConnector(settings, name).flatMap((one) =>
    (publish.get(one.name)?.connectors.length ?? 0) > 0 ? [one.name] : [],
  );
}

function removedText({ cwd }: CommandContext, name: string, { file }: ConfigEdit): string {
  return `Removed ${name} from ${relative(cwd, file) || file}.`;
}
