import { basename } from 'node:path';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { carryOut } from '../app/acts.ts';
import {
  addAct,
  type EditWorld,
  placeOfNew,
  plannedConnector,
  scheduleChoices,
  secretAt,
  secretsFolder,
  storeSecret,
} from '../app/config-edits.ts';
import { type CheckResult, checkPlanned } from '../app/setup-checks.ts';
import { SyncError, usage } from '../core/errors.ts';
import { ProblemsError } from '../core/problems.ts';
import type { CredentialShape, Definition } from '../definitions/definition.ts';
import { yamlEntry } from '../definitions/edit-yaml.ts';
import { isSealed } from '../monitor/page-access.ts';
import { connectorEntry, freeName, usualVariable } from '../settings/edit-connectors.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { counted, printable } from '../telemetry/format.ts';
import { type ActRoutes, actorOf, leadBack, refusal } from './act-pages.ts';
import {
  callout,
  crumbs,
  inputField,
  moment,
  page,
  type PageWorld,
  param,
  sendPage,
  state,
  type StateLook,
} from './layout.ts';

export const addRoute = '/add/:definition';

/** Definitions may have hundreds of entities, and each is a field. */
const maxFormBytes = 65_536;
const addQuery = z.object({ q: param.text, way: z.coerce.number().int().catch(0) });
const addParams = z.object({ definition: z.string().max(200).default('') });
const addFields = z
  .record(z.string().max(200), z.string().max(4_096).catch(''))
  .catch({})
  .transform((fields): ReadonlyMap<string, string> => new Map(Object.entries(fields)));
type Fields = z.output<typeof addFields>;

/**
 * Adds a connector to the config: GET `/add` lists the types, GET `/add/<type>` asks for name and credentials, POST
 * checks them and writes the connector where that is asked. Needs the right to act; a POST a form of this server, too.
 */
export function addConnectorRoutes(pages: FastifyInstance, options: ActRoutes): void {
  const { settings } = options;
  const answer = async (request: FastifyRequest, reply: FastifyReply, fields: Fields | null) => {
    const now = options.world(request);
    const refused = refusal(request, now, options, fields === null ? null : (fields.get('token') ?? ''));
    if (refused !== null) return await sendPage(reply.code(403), refused);
    const { definition: name } = addParams.parse(request.params);
    const query = addQuery.parse(request.query);
    if (name === '') return await sendPage(reply, typesPage(settings, query.q, now));
    const definition = settings.definitions.get(name);
    if (definition === undefined) throw usage(`There is no connector type "${name}".`);
    const ways = waysOf(definition, settings);
    const index = query.way in ways ? query.way : 0;
    const way = ways[index] ?? null;
    const asked = { definition, ways, index, way, canType: isSealed(request), world: options };
    const form = readForm(asked, fields);
    if (fields === null) return await sendPage(reply, formPage(asked, { form }, now));
    const outcome = await outcomeOf(asked, form, fields);
    const { planned } = outcome;
    const isAsked = fields.get('do') === 'add' && planned?.edit.obstacle === null;
    if (!isAsked) return await sendPage(reply, formPage(asked, outcome, now));
    if (fields.get('seen') !== planned.edit.seen) {
      const problems = [
        'Nothing was added, because the config has changed since you saw the lines. Look at them again.',
      ];
      return await sendPage(reply.code(409), formPage(asked, { ...outcome, problems }, now));
    }
    const how = { name: 'add', reason: '' };
    const deed = await carryOut(addAct(planned, options), how, actorOf(now), options);
    const isAdded = deed.told.length > 0 || deed.state === 'doing';
    return leadBack(deed, isAdded ? `connectors/${form.name}` : `add/${definition.name}`, reply);
  };
  for (const path of ['/add', addRoute]) {
    pages.get(path, async (request, reply) => await answer(request, reply, null));
  }
  pages.post(addRoute, { bodyLimit: maxFormBytes }, async (request, reply) =>
    answer(request, reply, addFields.parse(request.body ?? {})),
  );
}

/** A way to sign in; null: the Connector Execution API of the config has the credentials. */
type Way = CredentialShape | null;

interface Asked {
  readonly definition: Definition;
  readonly ways: readonly Way[];
  /** The chosen one of `ways`, and its place there. Without any it is null. */
  readonly way: Way;
  readonly index: number;
  /** A secret may be typed into the form. */
  readonly canType: boolean;
  readonly world: EditWorld;
}

const noCredentials: CredentialShape = { title: 'No credentials', fields: new Map() };

function waysOf({ upstream, credentials }: Definition, { parts }: LocalSettings): readonly Way[] {
  const direct = upstream === null ? [] : credentials.length === 0 ? [noCredentials] : credentials;
  return [...(parts.api === null ? [] : [null]), ...direct];
}

/** The filled-in form, without secrets. */
type Form = ReturnType<typeof readForm>;

/** `fields`: null for a form that no one has filled in yet. */
function readForm({ definition, way, world: { settings } }: Asked, fields: Fields | null) {
  const given = (name: string, usual = ''): string =>
    fields === null ? usual : (fields.get(name) ?? '').trim();
  const usual = way === null ? definition.entities : (definition.upstream?.entities ?? new Map());
  const places = [...(way?.fields.keys() ?? [])].map((field) => {
    const kind = given(`from.${field}`, 'env');
    return [field, { kind, name: given(`at.${field}`, usualVariable(definition, field)) }] as const;
  });
  return {
    name: given('name', freeName(settings, definition.name)),
    id: given('id'),
    sink: given('sink'),
    every: scheduleChoices.has(given('every')) ? given('every') : '30m',
    entities: [...definition.entities.keys()].filter(
      (name) => given(`entity.${name}`, usual.has(name) ? 'on' : '') !== '',
    ),
    /** The places of the credentials, by field. */
    places: new Map(places),
  };
}

interface Outcome {
  readonly form: Form;
  readonly planned?: ReturnType<typeof plannedConnector>;
  readonly checks?: Awaited<ReturnType<typeof checkPlanned>>;
  /** Why it cannot be added as it is. */
  readonly problems?: readonly string[];
  /** The lines for a file that has to be edited by hand. */
  readonly lines?: string;
}

/** Stores what was typed, and checks the connector; without a check of its service where it is to be added. */
async function outcomeOf(asked: Asked, form: Form, fields: Fields): Promise<Outcome> {
  const { definition, way, world } = asked;
  const { name } = form;
  let lines: string | undefined;
  try {
    const place = placeOfNew(world, name);
    for (const field of form.places.keys()) storeTyped(asked, form, field, fields);
    const credentials = [...form.places.keys()].flatMap((field) => {
      const reference = referenceOf(asked, form, field, place.file);
      return reference === null ? [] : [[field, reference]];
    });
    const entry = connectorEntry(world.settings, place, {
      definition: definition.name,
      ...(way === null ? { id: form.id } : { credentials: Object.fromEntries(credentials) }),
      sink: world.settings.sinks.has(form.sink) ? form.sink : undefined,
      exclude: [...definition.entities.keys()].filter((one) => !form.entities.includes(one)),
      schedule: form.every === 'none' ? {} : { every: form.every },
    });
    lines = yamlEntry('connectors', name, entry);
    const planned = plannedConnector(world, place.file, { name, entry });
    if (fields.get('do') === 'add') return { form, planned };
    const checked = { name: planned.connector.name, settings: planned.edit.settings };
    return { form, planned, checks: await checkPlanned(checked, world) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const own = `connectors.${name}.`;
    return error instanceof ProblemsError
      ? { form, problems: error.problems.map(({ path, message }) => `${path.replace(own, '')}: ${message}`) }
      : { form, problems: [error.message], ...(lines && { lines }) };
  }
}

/** Stores a secret that was typed, and lets the form refer to it. */
function storeTyped({ canType, world }: Asked, { name, places }: Form, field: string, fields: Fields): void {
  const typed = (fields.get(`typed.${field}`) ?? '').trim();
  if (typed === '') return;
  const folder = secretsFolder(world.settings);
  if (folder === null || !canType) {
    throw usage(
      `${field}: a secret may be typed only over https or on this machine, with a folder for secrets.`,
    );
  }
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(typed)) throw usage(`${field}: expected a text without line ends.`);
  places.set(field, { kind: 'file', name: storeSecret(folder, `${name}.${field}`, typed) });
}

/** Null for a field that is left out. */
function referenceOf({ way, world }: Asked, { places }: Form, field: string, file: string): string | null {
  const { kind = '', name = '' } = places.get(field) ?? {};
  const known = way?.fields.get(field);
  if (name === '' && known?.isRequired === false) return null;
  // A value that is written as it is refers to nothing.
  if (kind === 'text' && known?.isSecret === false) return name.replaceAll('${', '$${');
  const found = secretAt(world, kind, name, file);
  if (found.ok) return found.reference;
  throw usage(`${field}: ${found.why}.`);
}

const mostTypes = 100;

function typesPage({ definitions, parts }: LocalSettings, q: string, world: PageWorld): string {
  const text = q.trim().toLowerCase();
  const found = [...definitions.values()].filter(({ name, title, aliases }) =>
    [name, title, ...aliases].some((one) => one.toLowerCase().includes(text)),
  );
  const needs = ({ upstream, credentials: [way] }: Definition): string => {
    if (upstream === null) return parts.api === null ? 'needs a Connector Execution API' : 'through the API';
    return way === undefined ? 'open to all' : `needs: ${way.title}`;
  };
  const item = (address: string, name: string, more: string): SafeHtml =>
    html`<li>
      <a href="${address}"><b>${name}</b> <span class="soft">${more}</span></a>
    </li>`;
  const types = found.slice(0, mostTypes).map((one) => {
    const entities = counted(one.entities.size, 'entity', 'entities');
    return item(`add/${one.name}`, serviceOf(one), `${entities} · ${needs(one)}`);
  });
  const more = found.length - types.length;
  const main = html`<form role="search" aria-label="Types">
      <label class="unseen" for="type">Find among ${counted(definitions.size, 'type')}</label>
      <input class="full" id="type" name="q" type="search" value="${q}" placeholder="Find a type" autofocus />
    </form>
    <ul class="panel pick">
      ${types} ${item('#any', 'Any HTTP API', 'Write or import a definition')}
    </ul>
    ${more > 0 ? html`<p class="soft">and ${more} more: find them by name</p>` : ''}
    <section id="any">
      <h2>Any HTTP API</h2>
      <p class="soft">
        A definition file describes a service. Import one from an OpenAPI file or a Postman collection, and
        name its folder in <code>definitions</code> of the config: then it is in this list.
        <code>docs/adding-a-connector.md</code> shows each step.
      </p>
      <pre class="log" tabindex="0">${world.program} definitions import openapi.yaml -o definitions</pre>
    </section>`;
  return stepPage(null, 0, 'Which service?', main, world);
}

/** The name under which people know the service. */
function serviceOf({ title, aliases, name }: Definition): string {
  const [alias] = aliases;
  return alias === undefined ? title || name : alias.charAt(0).toUpperCase() + alias.slice(1);
}

/** A step of adding a connector. `service`: null before one is chosen. */
function stepPage(service: string | null, at: number, heading: string, content: SafeHtml, world: PageWorld) {
  const root = service === null ? './' : '../';
  const chosen = service === null ? [] : [[`${root}add`, 'Add'] as const];
  const steps = ['Type', 'Credentials', 'Check', 'First sync'].map((name, index) => {
    if (index < at) return html`<li><span class="plus">✓</span> ${name}</li>`;
    return html`<li ${index === at ? html`aria-current="step"` : ''}>${index + 1}. ${name}</li>`;
  });
  const main = html`<div class="narrow">
    ${crumbs([[root, 'Connectors'], ...chosen], service ?? 'Add')}
    <h1>${heading}</h1>
    <ol class="key" aria-label="Steps">
      ${steps}
    </ol>
    ${content}
  </div>`;
  return page({ title: `Add connector: ${service ?? 'type'}`, root, at: '', main, isLive: false }, world);
}

function formPage(asked: Asked, outcome: Outcome, world: PageWorld): string {
  const { form, checks, planned, problems = [] } = outcome;
  const service = serviceOf(asked.definition);
  // Without Redis it can be read by hand.
  const isBad = ({ what, state: found }: CheckResult): boolean => found === 'failed' && what !== 'redis';
  const isSound = checks !== undefined && !checks.results.some(isBad);
  const why = html`${problems.map((one) => html`<p role="alert">${printable(one)}</p>`)}`;
  const [heading, button] =
    checks === undefined
      ? [`Add ${service}`, 'Check']
      : [`${form.name} ${isSound ? 'can be read' : 'cannot be read yet'}`, 'Check again'];
  const main = html`${problems.length === 0 ? '' : callout('bad', 'Why it cannot be added', why)}
    <form class="list" method="post" action="${asked.definition.name}?way=${asked.index}">
      <input type="hidden" name="token" value="${world.formToken}" />
      <div class="panel">
        <div class="step">
          ${formFields(asked, form)}
          <p><button class="${isSound ? '' : 'primary'}" name="do" value="check">${button}</button></p>
        </div>
      </div>
      ${checks === undefined ? '' : checkSection(checks, world)} ${addSection(outcome, isSound)}
    </form>`;
  return stepPage(service, planned === undefined ? 1 : 2, heading, main, world);
}

function formFields(asked: Asked, form: Form): SafeHtml {
  const { ways, index, definition, world } = asked;
  const tables = html`Tables start with <code>${form.name.replaceAll('-', '_')}__</code>. It cannot be changed
    later.`;
  const ids = html`<code>${world.program} connectors list</code> shows those that it has.`;
  const chips = ways.map((way, at) => {
    const current = at === index ? html`aria-current="true"` : '';
    const text = way === null ? 'Through the API' : way.title;
    return html`<a class="chip" href="${definition.name}?way=${at}" ${current}>${text}</a>`;
  });
  const unreadable = 'Only a Connector Execution API can read this type, and the config has no api.';
  const sinks = [...world.settings.sinks.keys()].map((one) => [one, one] as const);
  const entities = [...definition.entities.keys()].map((name) => {
    const checked = form.entities.includes(name) ? html`checked` : '';
    return html`<li>
      <label><input type="checkbox" name="entity.${name}" value="on" ${checked} /> ${name}</label>
    </li>`;
  });
  return html`${inputField('name', 'Name', tables, { value: form.name })}
    ${ways.length === 0 ? html`<p class="soft">${unreadable}</p>` : ''}
    ${ways.length > 1 ? html`<nav class="chips" aria-label="Ways to sign in">${chips}</nav>` : ''}
    ${ways[index] === null ? inputField('id', 'Id of the connector in the API', ids, { value: form.id }) : ''}
    ${[...form.places.keys()].map((field) => credentialField(asked, form, field))}
    ${sinks.length > 1 ? selectField('sink', 'Where do its rows go?', sinks, form.sink) : ''}
    <details>
      <summary>${form.entities.length} of ${counted(entities.length, 'entity', 'entities')}</summary>
      <ul>
        ${entities}
      </ul>
    </details>`;
}

type Choices = Iterable<readonly [value: string, text: string]>;

function options(choices: Choices, chosen: string) {
  return [...choices].map(([value, text]) => {
    const selected = value === chosen ? html`selected` : '';
    return html`<option value="${value}" ${selected}>${text}</option>`;
  });
}

function selectField(name: string, label: string, choices: Choices, chosen: string): SafeHtml {
  const select = html`<select id="${name}" name="${name}">
    ${options(choices, chosen)}
  </select>`;
  return html`<p class="field">
    <label for="${name}">${label}</label>
    <span class="acts">${select}</span>
  </p>`;
}

/** Where one field of the credentials is, and whether it is there. */
function credentialField({ way, world, canType }: Asked, { places }: Form, field: string): SafeHtml {
  const { kind = '', name = '' } = places.get(field) ?? {};
  const { isSecret = true, isRequired = true } = way?.fields.get(field) ?? {};
  const folder = secretsFolder(world.settings);
  const kinds = [
    ['env', 'Environment'],
    ['file', `File in ${basename(folder ?? '')}`],
    ['text', 'In the config'],
  ] as const;
  const possible = kinds.filter(([one]) => one === 'env' || (one === 'file' ? folder !== null : !isSecret));
  const found = kind === 'text' || name === '' ? null : secretAt(world, kind, name, world.settings.file);
  const known = found?.ok
    ? html`${state('ok', 'Found')}, ${counted(found.value.length, 'character')}.`
    : html`${state('idle', 'Not there yet')}: ${printable(found?.why ?? '')}.`;
  const once = html`It goes to a new file in <code>${folder ?? ''}</code> for this server alone, and is never
    shown.`;
  const password = { type: 'password', autocomplete: 'new-password' };
  return html`<p class="field">
      <label for="at.${field}">Where is <code>${field}</code>?${isRequired ? '' : ' (not required)'}</label>
      <span class="acts">
        <select name="from.${field}" aria-label="Kind of place of ${field}">
          ${options(possible, kind)}
        </select>
        <input class="grow mono" id="at.${field}" name="at.${field}" value="${name}" autocomplete="off" />
      </span>
      <span class="hint">${found === null ? '' : known} Its name, not the secret itself.</span>
    </p>
    ${folder !== null && canType && isSecret ? inputField(`typed.${field}`, 'Or type it, once', once, password) : ''}`;
}

const checkWords: Readonly<Record<CheckResult['state'], readonly [StateLook, string]>> = {
  ok: ['ok', 'Passed'],
  warning: ['warn late', 'Warning'],
  failed: ['bad', 'Failed'],
  skipped: ['idle', 'Left out'],
};

function checkSection({ results, atMs, tookMs }: NonNullable<Outcome['checks']>, { nowMs }: PageWorld) {
  const lines = results.map(
    ({ state: found, what, detail }) =>
      html`<li>${state(...checkWords[found])}<span>${printable(`${what}: ${detail}`)}</span></li>`,
  );
  return html`<section aria-labelledby="result">
    <h2 id="result">Checked at ${moment(atMs, nowMs)}, in ${(tookMs / 1000).toFixed(1)} s</h2>
    <ul class="panel checks">
      ${lines}
    </ul>
  </section>`;
}

/** The lines that will be written, and the button that writes them; without it where a person has to. */
function addSection({ form, planned, lines }: Outcome, isSound: boolean): SafeHtml | '' {
  const added = planned?.edit.lines.map((line) => line.slice(2)) ?? lines?.trimEnd().split('\n');
  if (added === undefined) return '';
  const { file = '', obstacle = '', seen = '' } = planned?.edit ?? {};
  const text = html`<pre class="log" id="lines" tabindex="0">${added.map(printable).join('\n')}</pre>`;
  const every = selectField('every', 'How often?', scheduleChoices, form.every);
  const byHand = html`<h2>Paste these lines into the config</h2>
    <p class="soft">${obstacle ? `${obstacle}. ` : ''}They belong below <code>connectors:</code>.</p>
    ${every} ${text}
    <p><button type="button" class="low" data-copy="#lines" hidden>Copy</button></p>`;
  const button = isSound ? 'Add and start the first sync' : 'Add it all the same';
  const here = html`<input type="hidden" name="seen" value="${seen}" />
    ${every}
    <details>
      <summary>This adds ${counted(added.length, 'line')} to <code>${basename(file)}</code></summary>
      ${text}
    </details>
    <p><button class="${isSound ? 'primary' : ''}" name="do" value="add">${button}</button></p>`;
  return html`<section class="panel" aria-label="Lines for the config">
    <div class="step">${obstacle === null ? here : byHand}</div>
  </section>`;
}
