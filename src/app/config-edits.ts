import { hash, randomBytes } from 'node:crypto';
import { accessSync, closeSync, constants, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { SyncError, usage } from '../core/errors.ts';
import { isConnectorName } from '../core/names.ts';
import { ProblemsError } from '../core/problems.ts';
import { namePattern } from '../definitions/check-names.ts';
import type { CredentialShape, Definition } from '../definitions/definition.ts';
import { yamlEntry } from '../definitions/edit-yaml.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { openPrivateFile, syncDirectory } from '../files/private-file.ts';
import { replaceText } from '../files/replace-text.ts';
import { connectorNamed, targetsOfConnector } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { readSecretFile } from '../settings/config-files.ts';
import { entryGiven } from '../settings/connector-settings.ts';
import {
  addedConnector,
  type ConfigEdit,
  connectorEntry,
  connectorsPlace,
  environmentReference,
  freeName,
  rekeyedConnector,
  removedConnector,
  rescheduledConnector,
  secretReference,
  usualVariable,
  writtenPlaces,
} from '../settings/edit-connectors.ts';
import { readSettings, secretsOf, withParts } from '../settings/load-settings.ts';
import { formatDuration } from '../settings/texts.ts';
import { openSink } from '../sinks/registry.ts';
import type { Action } from '../sinks/requests.ts';
import { counted, duration } from '../telemetry/format.ts';
import {
  type ActHow,
  type ActWorld,
  connectorActs,
  type Deed,
  noteIn,
  overviewNow,
  type PreparedAct,
} from './acts.ts';
import { reachQueues } from './reach-queues.ts';
import { checkPlanned, type CheckResult, runChecks, withConnectors } from './setup-checks.ts';

/** Lets a process edit the config that it serves. */
export interface ConfigEditing {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Hides the secrets of a changed config in everything that this process writes. */
  readonly hide: (settings: LocalSettings) => void;
  /** Reads the written config again, and puts it into force here. Never rejects. */
  readonly reload: () => Promise<unknown>;
  /** This process is one of the workers. */
  readonly isWorker: boolean;
}

export type EditWorld = ActWorld & {
  /** Null: this process cannot edit its config. */
  readonly editing: ConfigEditing | null;
  /** The visitor may type secrets: no one else reads them, and there is a folder for them. */
  readonly canType: boolean;
};

/** Schedules to choose from: the value of `every`, and its name. */
export const scheduleChoices: ReadonlyMap<string, string> = new Map([
  ['15m', 'Every 15 min'],
  ['30m', 'Every 30 min'],
  ['1h', 'Every hour'],
  ['1d', 'Every day'],
  ['none', 'By hand only'],
]);

/** `every 15 min`, `at 0 5 * * * UTC`, `by hand only`: a schedule as people read it. */
function scheduleName(schedule: ConnectorSettings['schedule']): string {
  if (schedule?.kind === 'cron') return `at ${schedule.pattern} ${schedule.timezone}`;
  const every = schedule === null ? 'none' : formatDuration(schedule.everyMs);
  return scheduleChoices.get(every)?.toLowerCase() ?? `every ${duration(schedule?.everyMs ?? 0)}`;
}

/** A change of the config that was checked, as a person sees it before it is written. */
export type PlannedEdit = ReturnType<typeof plannedEdit>;

/** Throws USAGE where this process cannot edit its config. */
function editingOf({ editing, settings, program }: EditWorld) {
  if (editing !== null) return { editing, file: settings.file, env: editing.env };
  throw usage(`These pages cannot edit the config. Use "${program} connectors" in a terminal.`);
}

function plannedEdit(world: EditWorld, edit: ConfigEdit) {
  editingOf(world).editing.hide(edit.settings);
  return {
    ...edit,
    lines: changedLines(edit.before ?? '', edit.after),
    /** Another content of the file has another one. */
    seen: hash('sha256', JSON.stringify([edit.file, edit.before]), 'base64url'),
    /** Why the file cannot be replaced here; null: it can. */
    obstacle: obstacleAt(path.dirname(edit.file)) ?? (edit.before === null ? null : obstacleAt(edit.file)),
  };
}

/** The lines that differ, with `-` or `+` before each. */
function changedLines(before: string, after: string): readonly string[] {
  const [old, now] = [before.split(/\r?\n/), after.split(/\r?\n/)];
  const most = Math.min(old.length, now.length);
  let same = 0;
  while (same < most && old[same] === now[same]) same += 1;
  let end = 0;
  while (end < most - same && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  return [
    ...old.slice(same, old.length - end).map((line) => `- ${line}`),
    ...now.slice(same, now.length - end).map((line) => `+ ${line}`),
  ];
}

function obstacleAt(place: string): string | null {
  try {
    accessSync(place, constants.W_OK);
    return null;
  } catch (error) {
    return `${place} cannot be written (${error instanceof Error && 'code' in error ? String(error.code) : ''})`;
  }
}

/** A worker first ends the runs of an older config. */
const reloadWithinMs = 5_000;
const workersWithinMs = 10_000;

/**
 * Writes the change and notes it in the sink of the connector, which is opened first: a change that cannot be noted is
 * not written. Then puts it into force here, and has the other workers read it.
 */
async function writeEdit(
  { file, before, after, obstacle, settings }: PlannedEdit,
  { name, sink: sinkSettings }: ConnectorSettings,
  action: Pick<Action, 'action' | 'detail'>,
  world: EditWorld,
  who: string,
): Promise<void> {
  const { clock, signal } = world;
  const { editing, file: like } = editingOf(world);
  if (obstacle !== null) throw usage(`${obstacle}. Nothing was changed: change it where it can be written.`);
  {
    await using sink = await openSink(sinkSettings, { clock, signal, who });
    try {
      replaceText({ file, before, after, like, nowMs: clock.now() });
    } catch (error) {
      if (error instanceof SyncError) throw error;
      throw usage(`${file} cannot be written: ${String(error)}. Nothing was changed.`);
    }
    await sink.noteAction({ ...action, connector: name });
  }
  await putIntoForce(settings, editing, clock);
}

/** Has this process and the other workers read the config again. */
async function putIntoForce(settings: LocalSettings, editing: ConfigEditing, clock: ActWorld['clock']) {
  await using reached = await reachQueues(settings);
  // Counted before this process reads the config again, with two workers for a moment.
  const workers = (await reached.queues?.workers()) ?? 0;
  await Promise.race([editing.reload(), clock.sleep(reloadWithinMs)]);
  if (workers <= Number(editing.isWorker)) return;
  // The signal of these pages has ended with them. A worker that is late gets the config later.
  await reached.queues?.reload(AbortSignal.timeout(workersWithinMs)).catch(() => undefined);
}

/** Acts on one connector that change or read the config; what is stored stays. Throw as `addedConnector`. */
export const editActs = {
  /**
   * Does what `connector-sync check` does, in this process, and tells each result at once. Reads the config and its
   * secrets again; changed secrets are in force from then on.
   */
  check: ({ name, sink }: ConnectorSettings, world: EditWorld): PreparedAct => ({
    title: `Check ${name}`,
    says: [
      `The credentials, the first pages, the sink and the targets of ${name} are tried. Nothing changes.`,
    ],
    of: [name],
    do: async ({ who, tell }) => {
      const { settings: known, editing, clock } = world;
      const now = editing === null ? known : readSettings({ file: known.file, env: editing.env });
      editing?.hide(now);
      const given = withConnectors(withParts(now, 'access', 'redis'), [name]);
      const results = await runChecks(world, given, false, (check) =>
        tell(`${check.what}: ${check.detail}`, { connector: name, check: check.state }),
      );
      const failed = results.filter(({ state }) => state === 'failed').length;
      const detail = failed === 0 ? {} : { failed };
      await noteIn(sink, { action: 'check', connector: name, detail }, { ...world, who });
      const [before, after] = [known, now].map((one) => secretsOf(one).map((secret) => secret.reveal()));
      if (editing !== null && !isDeepStrictEqual(before, after)) await putIntoForce(now, editing, clock);
    },
  }),
  /** `every`: one of `scheduleChoices`; any other text: none is chosen yet. */
  schedule: (connector: ConnectorSettings, world: EditWorld, every: string): PreparedAct => {
    const { name } = connector;
    const title = `Change the schedule of ${name}`;
    const isChosen = scheduleChoices.has(every);
    const choices = { param: 'every', options: scheduleChoices, chosen: isChosen ? every : '' };
    const options = editingOf(world);
    const from = scheduleName(connector.schedule);
    if (!isChosen) {
      const refuse = async () => await Promise.reject(usage('Choose a schedule first.'));
      return { title, says: [`${name} runs ${from} now. How often?`], of: [name], choices, do: refuse };
    }
    const schedule = every === 'none' ? null : { every };
    const edit = plannedEdit(world, rescheduledConnector(options, name, schedule));
    if (edit.after === edit.before) throw usage(`${name} has this schedule already, or that of "defaults".`);
    const to = scheduleName(connectorNamed(edit.settings, name).schedule);
    return {
      title,
      says: [`${name} then runs ${to}, not ${from} as now. A run in progress continues.`],
      of: [name, every, edit.seen],
      edit,
      choices,
      do: async ({ who, tell }) => {
        await writeEdit(edit, connector, { action: 'schedule', detail: { from, to } }, world, who);
        tell(`${name} now runs ${to}`);
      },
    };
  },
  /** Stores a new key that was typed, and refers to it once the service takes it. Throws USAGE where none can be. */
  'new-key': (connector: ConnectorSettings, world: EditWorld): PreparedAct => {
    const { name } = connector;
    const fields = keyFields(connector);
    if (fields.length === 0) throw usage(`${name} has no key in the config.`);
    if (!world.canType) throw usage(cannotType);
    return {
      title: `Give ${name} a new key`,
      button: 'Check and use it',
      says: [
        `The service is asked with it first. If it is refused, nothing changes. If not, it goes to a new file in ${secretsFolder(world.settings) ?? ''} for this server alone, and the config refers to it.`,
      ],
      of: [name, ...fields],
      asksSecrets: fields,
      do: async (how) => {
        const typed = fields.flatMap((field) => {
          const secret = how.typed?.get(`typed.${field}`)?.trim() ?? '';
          return secret === '' ? [] : [{ field, secret, file: secretFileOf(name, field, newSuffix()) }];
        });
        if (typed.length === 0) throw usage('Nothing was typed.');
        const stored: string[] = [];
        let isKept = false;
        try {
          for (const one of typed) stored.push(storeSecret(one, world));
          const change = rekeyedConnector(editingOf(world), name, (config) =>
            Object.fromEntries(
              typed.map(({ field, file }) => [field, referenceTo(file, field, config, world)]),
            ),
          );
          const edit = plannedEdit(world, change);
          const { results } = await checkPlanned({ name, settings: edit.settings }, world);
          const refused = results.filter(isObstacle).map(({ what, detail }) => `${what}: ${detail}`);
          if (refused.length > 0) throw usage(`It was not kept. ${refused.join('. ')}`);
          const detail = { fields: typed.map(({ field }) => field) };
          await writeEdit(edit, connector, { action: 'new-key', detail }, world, how.who);
          isKept = true;
          how.tell(`${name} has a new key`);
          await runChanged(edit, connector, world, how);
        } finally {
          if (!isKept) removeFiles(stored);
        }
      },
    };
  },
  remove: async (connector: ConnectorSettings, world: EditWorld): Promise<PreparedAct> => {
    const { name, sink } = connector;
    const edit = plannedEdit(world, removedConnector(editingOf(world), name));
    const rows = (await overviewNow(connector))?.rows ?? 0;
    const targets = targetsOfConnector(world.settings, name).map((target) => target.name);
    return {
      title: `Remove ${name} from the config`,
      says: [
        'It is no longer read, and these pages no longer show it. A run in progress stops at its next page.',
        `${counted(rows, 'row')} of it stay in sink ${sink.name}. A connector that is added under this name again continues with them; "${world.program} connectors remove ${name} --data" drops them for good.`,
        ...(targets.length === 0 ? [] : [`They leave ${firstNames(targets)} with the next publication.`]),
      ],
      of: [name, edit.seen],
      edit,
      do: async ({ who, tell }) => {
        await writeEdit(edit, connector, { action: 'remove', detail: { from: 'config' } }, world, who);
        tell(`${name} is removed from the config; what is stored of it stays in sink ${sink.name}`);
      },
    };
  },
};

/**
 * Checks a new connector in this file of the config. Throws as `addedConnector`.
 */
function plannedConnector(world: EditWorld, file: string, added: Parameters<typeof addedConnector>[2]) {
  const edit = plannedEdit(world, addedConnector(editingOf(world), file, added));
  return { edit, connector: connectorNamed(edit.settings, added.name) };
}

/** Writes a new connector to the config, and has a worker run it. */
export function addAct(
  { edit, connector }: ReturnType<typeof plannedConnector>,
  stored: readonly string[],
  world: EditWorld,
): PreparedAct {
  const { name, definition, address } = connector;
  return {
    title: `Add ${name}`,
    says: [],
    of: [name, edit.seen],
    edit,
    do: async (how) => {
      const detail = { definition: definition.name };
      await writeEdit(edit, connector, { action: 'add', detail }, world, how.who).catch((error: unknown) => {
        removeFiles(stored);
        throw error;
      });
      if (address.kind === 'direct' && address.signIn !== null) {
        return how.tell(`${name} is added. Now a person signs in: "${world.program} login ${name}"`);
      }
      how.tell(`${name} is added to ${path.basename(edit.file)}`);
      await runChanged(edit, connector, world, how);
    },
  };
}

/** Has a worker run a connector with its changed config; tells where none can. */
async function runChanged(
  { settings }: PlannedEdit,
  connector: ConnectorSettings,
  world: EditWorld,
  how: ActHow,
): Promise<void> {
  const signal = AbortSignal.timeout(workersWithinMs);
  try {
    const run = await connectorActs['run-now']([connector], { ...world, signal, settings });
    await using _needs = run.needs;
    await run.do(how);
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const text = `No worker can run it now. Run it with "${world.program} sync ${connector.name}"`;
    how.tell(text, undefined, [error.message]);
  }
}

/** Secret fields of the credentials that the config gives to a connector; empty: the API or a sign-in has them. */
export function keyFields({ address, definition: { credentials } }: ConnectorSettings): readonly string[] {
  if (address.kind !== 'direct' || address.signIn !== null) return [];
  return [...address.credentials.keys()].filter((field) =>
    credentials.some(({ fields }) => {
      const known = fields.get(field);
      return known?.isSecret === true && known.setting === undefined;
    }),
  );
}

const cannotType =
  'A secret may be typed only over https or on this machine, with a folder for secrets (http.secretsFolder) that can be written.';

/**
 * A secret for a new connector, in a variable (`env`) or a file of the folder for secrets (`file`): its text, for its
 * length alone, and how this file of the config refers to it. No secret of another part of the config.
 */
export function secretAt(world: EditWorld, kind: string, name: string, config: string) {
  const { settings } = world;
  const { env } = editingOf(world);
  const folder = secretsFolder(settings) ?? '';
  const refuse = (why: string) => ({ ok: false, why }) as const;
  const isFile = kind === 'file' && folder !== '' && secretFile.test(name);
  const file = path.join(folder, name);
  const variable = kind === 'env' && Object.hasOwn(env, name) ? (env[name] ?? '') : '';
  const found = isFile ? readSecretFile(file) : ({ ok: true, value: variable } as const);
  if (!found.ok) return found;
  const reference = isFile ? secretReference(config, file) : environmentReference(name);
  if (found.value === '' || reference === null) {
    return refuse(`no such ${kind === 'env' ? 'variable is set where this server runs' : 'file is there'}`);
  }
  const others = secretsOf({ ...settings, connectors: new Map(), publish: new Map() });
  if (others.every((secret) => secret.reveal() !== found.value)) return { ...found, reference };
  return refuse(ofAnotherPart);
}

const ofAnotherPart = 'this is the secret of another part of the config, which no service may get';
const secretFile = /^\w[\w.-]{0,99}$/;

/** The files of the folder for secrets that a new connector may refer to, as choices; the first: none of them. */
export function secretFiles(world: EditWorld): readonly (readonly [value: string, text: string])[] {
  const names = readdirSync(secretsFolder(world.settings) ?? '').filter((name) => secretFile.test(name));
  const found = names.sort().filter((name) => {
    const secret = secretAt(world, 'file', name, world.settings.file);
    return secret.ok || secret.why !== ofAnotherPart;
  });
  return [['', 'none'], ...found.map((name) => [name, name] as const)];
}

/** Whether a secret that is typed can be stored for this server. */
export function canStoreSecrets(settings: LocalSettings): boolean {
  const folder = secretsFolder(settings);
  return folder !== null && obstacleAt(folder) === null;
}

/** The folder for secrets of new connectors, absolute; null: the config names none. */
export function secretsFolder({ file, parts: { http } }: LocalSettings): string | null {
  return http.secretsFolder === null ? null : path.resolve(path.dirname(file), http.secretsFolder);
}

const noCredentials: CredentialShape = { title: 'No credentials', fields: new Map() };

/** The form for a connector of a new type. `fields`: null where no one has filled it in yet. */
interface AskedForm {
  readonly definition: Definition;
  /** Place of the asked way to sign in. */
  readonly index: number;
  readonly fields: ReadonlyMap<string, string> | null;
}

type NewAsked = AskedForm & { readonly suffix: string };

/** A form of a new connector, without secrets. */
export type NewForm = ReturnType<typeof readForm>;

export function readForm({ definition, fields, ...asked }: AskedForm, world: EditWorld) {
  const { upstream, credentials } = definition;
  const { settings } = world;
  const direct = upstream === null ? [] : credentials.length === 0 ? [noCredentials] : credentials;
  /** Ways to sign in; null: the Connector Execution API of the config has the credentials. */
  const ways: readonly (CredentialShape | null)[] = [
    ...(settings.parts.api === null ? [] : [null]),
    ...direct,
  ];
  const index = asked.index in ways ? asked.index : 0;
  const way = ways[index] ?? null;
  const given = (name: string, usual = ''): string =>
    fields === null ? usual : (fields.get(name) ?? '').trim();
  const placeOf = (field: string, isSecret: boolean) => {
    const variable = usualVariable(definition, field);
    const isUsual = !isSecret || !world.canType || secretAt(world, 'env', variable, '').ok;
    const places = ['file', 'env', 'text'].map((kind) => {
      return { kind, name: given(`${kind}.${field}`, kind === 'env' && isUsual ? variable : '') };
    });
    return places.find(({ name }) => name !== '') ?? { kind: '', name: '' };
  };
  const usual = way === null ? definition.entities : (upstream?.entities ?? new Map());
  const entities = [...definition.entities.keys()];
  const every = given('every');
  return {
    definition,
    ways,
    index,
    way,
    name: given('name', freeName(settings, definition.name)),
    id: given('id'),
    sink: given('sink'),
    every: scheduleChoices.has(every) ? every : '30m',
    /** Fields that were typed. */
    typed: new Set([...(way?.fields.keys() ?? [])].filter((field) => given(`typed.${field}`) !== '')),
    entities: entities.filter((name) => given(`entity.${name}`, usual.has(name) ? 'on' : '') !== ''),
    /** The places of the credentials, by field. */
    places: new Map(
      Array.from(way?.fields ?? [], ([field, { isSecret }]) => [field, placeOf(field, isSecret)] as const),
    ),
  };
}

/** A filled-in form, as far as it can be a connector. */
export interface PlannedNew {
  readonly form: NewForm;
  readonly planned?: ReturnType<typeof plannedConnector>;
  /** It is to be added, and can be. */
  readonly isReady?: boolean;
  /** Files for the secrets that were typed. */
  readonly stored?: readonly string[];
  readonly checks?: Awaited<ReturnType<typeof checkPlanned>>;
  /** The checks found nothing that keeps it from being read. */
  readonly isSound?: boolean;
  /** Why it cannot be added as it is. */
  readonly problems?: readonly string[];
  /** The lines for a file that has to be edited by hand. */
  readonly lines?: string;
}

/**
 * Plans the connector of a form. Checks it unless the form asks to add it (`do`: add). Writes a typed secret to a file
 * named with `suffix`: the file is removed after a check, and stays once the connector is added.
 */
export async function planNew(asked: NewAsked, world: EditWorld): Promise<PlannedNew> {
  const typed: string[] = [];
  let isKept = false;
  try {
    const plan = await planTyped(readForm(asked, world), asked, typed, world);
    isKept = plan.isReady === true;
    if (isKept) return { ...plan, stored: typed };
    if (typed.length === 0 || plan.isSound === true) return plan;
    const again = 'What you typed was not kept. Type it again, or choose where it is.';
    const problems = [...(plan.problems ?? []), again];
    const fields = new Map([...(asked.fields ?? [])].filter(([name]) => !name.startsWith('typed.')));
    const form = readForm({ ...asked, fields }, world);
    return { form, problems, ...(plan.checks && { checks: plan.checks }) };
  } finally {
    if (!isKept) removeFiles(typed);
  }
}

async function planTyped(
  form: NewForm,
  { fields, suffix }: NewAsked,
  typed: string[],
  world: EditWorld,
): Promise<PlannedNew> {
  const { name, definition } = form;
  let lines: string | undefined;
  try {
    const place = placeOfNew(world, name);
    for (const field of form.places.keys()) {
      const secret = (fields?.get(`typed.${field}`) ?? '').trim();
      if (secret === '') continue;
      const file = secretFileOf(name, field, suffix);
      typed.push(storeSecret({ field, secret, file }, world));
      form.places.set(field, { kind: 'file', name: file });
    }
    const credentials = [...form.places.keys()].flatMap((field) => {
      const reference = referenceOf(form, field, place.file, world);
      return reference === null ? [] : [[field, reference]];
    });
    const entry = connectorEntry(world.settings, place, {
      definition: definition.name,
      ...(form.way === null ? { id: form.id } : entryGiven(definition, Object.fromEntries(credentials))),
      sink: world.settings.sinks.has(form.sink) ? form.sink : undefined,
      exclude: [...definition.entities.keys()].filter((one) => !form.entities.includes(one)),
      schedule: form.every === 'none' ? {} : { every: form.every },
    });
    lines = yamlEntry('connectors', name, entry);
    const planned = plannedConnector(world, place.file, { name, entry });
    const { edit } = planned;
    if (fields?.get('do') === 'add') {
      if (fields.get('seen') === edit.seen) return { form, planned, isReady: edit.obstacle === null };
      const changed = 'Nothing was added, because the config has changed since you saw the lines.';
      return { form, planned, problems: [`${changed} Look at them again.`] };
    }
    const checks = await checkPlanned({ name: planned.connector.name, settings: edit.settings }, world);
    return { form, planned, checks, isSound: !checks.results.some(isObstacle) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const own = `connectors.${name}.`;
    return error instanceof ProblemsError
      ? { form, problems: error.problems.map(({ path, message }) => `${path.replace(own, '')}: ${message}`) }
      : { form, problems: [error.message], ...(lines && { lines }) };
  }
}

/** Without Redis a connector can be read by hand. */
function isObstacle({ state, what }: CheckResult): boolean {
  return state === 'failed' && what !== 'redis';
}

/** A form that was checked, as its page shows it, with what was typed into it. */
export interface Draft extends Pick<Deed, 'id' | 'visitor' | 'atMs'>, Pick<NewAsked, 'suffix'> {
  readonly plan: PlannedNew;
  /** Secrets that were typed and can be read with, as fields of the form. */
  readonly typed: ReadonlyMap<string, string>;
}

/** Where a new connector of this name goes. Throws USAGE for a name that it cannot have. */
function placeOfNew(world: EditWorld, name: string) {
  if (!isConnectorName(name)) throw usage(`Name: expected ${namePattern('_ or -')}.`);
  if (world.settings.connectors.has(name)) {
    throw usage(`The config has a connector ${name} already. Choose another name.`);
  }
  const { file, env } = editingOf(world);
  return connectorsPlace({ file, env }, writtenPlaces({ file, env }).possible[0] ?? file);
}

/** Ends the names of files for secrets that are typed together. */
export function newSuffix(): string {
  return randomBytes(3).toString('hex');
}

function secretFileOf(connector: string, field: string, suffix: string): string {
  return `${connector}.${field}-${suffix}`;
}

function removeFiles(files: readonly string[]): void {
  for (const file of files) rmSync(file, { force: true });
}

/**
 * Stores a secret that was typed in a new file of the folder for secrets, for its owner alone. Gives its path. Replaces
 * nothing, and removes a file that it cannot write completely.
 */
function storeSecret(
  { field, secret: text, file: name }: Readonly<Record<'field' | 'secret' | 'file', string>>,
  world: EditWorld,
) {
  const folder = secretsFolder(world.settings) ?? '';
  if (!world.canType) throw usage(`${field}: ${cannotType}`);
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) throw usage(`${field}: expected a text without line ends.`);
  const file = path.join(folder, name);
  try {
    const descriptor = openPrivateFile(file);
    try {
      writeFileSync(descriptor, text, { flush: true });
    } catch (error) {
      rmSync(file);
      throw error;
    } finally {
      closeSync(descriptor);
    }
    syncDirectory(folder);
  } catch (error) {
    throw usage(`The secret cannot be stored: ${error instanceof Error ? error.message : String(error)}.`);
  }
  return file;
}

/** How this file of the config refers to a field of the credentials; null for one that is left out. */
function referenceOf({ way, places }: NewForm, field: string, file: string, world: EditWorld) {
  const { kind = '', name = '' } = places.get(field) ?? {};
  const known = way?.fields.get(field);
  if (name === '' && known?.isRequired === false) return null;
  if (name === '') throw usage(`${field}: type it, or choose where it is.`);
  // A value that is written as it is refers to nothing.
  if (kind === 'text' && known?.isSecret === false) return name.replaceAll('${', '$${');
  return referenceTo(name, field, file, world, kind);
}

function referenceTo(name: string, field: string, config: string, world: EditWorld, kind = 'file'): string {
  const found = secretAt(world, kind, name, config);
  if (found.ok) return found.reference;
  throw usage(`${field}: ${found.why}.`);
}
