import { basename } from 'node:path';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { carryOut, type keptForVisitors, newId } from '../app/acts.ts';
import {
  addAct,
  type Draft,
  type EditWorld,
  type NewForm,
  newSuffix,
  type PlannedNew,
  planNew,
  readForm,
  scheduleChoices,
  secretAt,
  secretFiles,
  secretsFolder,
} from '../app/config-edits.ts';
import type { CheckResult } from '../app/setup-checks.ts';
import { usage } from '../core/errors.ts';
import type { Definition } from '../definitions/definition.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { counted, printable } from '../telemetry/format.ts';
import { type ActRoutes, actorOf, formFields, leadBack, refusal } from './act-pages.ts';
import { page, type PageWorld, sendPage } from './layout.ts';
import {
  callout,
  crumbs,
  disclosed,
  inputField,
  moment,
  param,
  searchOf,
  state,
  type StateLook,
  typedSecret,
} from './page-parts.ts';

export const addRoute = '/add/:definition';

/** Definitions may have hundreds of entities, and each is a field. */
const maxFormBytes = 65_536;
const addQuery = z.object({ q: param.text, draft: param.text, way: z.coerce.number().int().catch(0) });
const addParams = z.object({ definition: z.string().max(200).default('') });

type AddRoutes = ActRoutes & { readonly drafts: ReturnType<typeof keptForVisitors<Draft>> };

/**
 * Adds a connector to the config: GET `/add` lists the types, GET `/add/<type>` asks for name and credentials, POST
 * checks them and writes the connector where that is asked. Needs the right to act; a POST a form of this server, too.
 */
export function addConnectorRoutes(pages: FastifyInstance, options: AddRoutes): void {
  const { settings, drafts, access, clock } = options;
  const answer = async (
    request: FastifyRequest,
    reply: FastifyReply,
    fields: ReadonlyMap<string, string> | null,
  ) => {
    const now = options.world(request);
    const refused = refusal(request, now, options, fields && (fields.get('token') ?? ''));
    if (refused !== null) return await sendPage(reply.code(403), refused);
    const world = { ...options, canType: now.canType };
    const { definition: name } = addParams.parse(request.params);
    const { q, way: index, draft: id } = addQuery.parse(request.query);
    if (name === '') return await sendPage(reply, typesPage(settings, q, now));
    const definition = settings.definitions.get(name);
    if (definition === undefined) throw usage(`There is no connector type "${name}".`);
    const visitor = access.formToken(request);
    const draft = drafts.find(id, visitor, clock.now());
    if (fields === null) {
      const plan = draft?.plan ?? { form: readForm({ definition, index, fields }, world) };
      return await sendPage(reply, formPage(plan, draft?.id ?? '', world, now));
    }
    const { suffix } = draft ?? { suffix: newSuffix() };
    // An empty field does not replace what was typed before.
    const given = [...fields].filter(([field, text]) => text !== '' || !field.startsWith('typed.'));
    const asked = { definition, index, suffix, fields: new Map([...(draft?.typed ?? []), ...given]) };
    const plan = await planNew(asked, world);
    if (plan.planned === undefined || plan.isReady !== true) {
      const names = [...plan.form.typed].map((field) => `typed.${field}`);
      const typed = new Map(names.map((field) => [field, asked.fields.get(field) ?? '']));
      const kept = drafts.keep({ id: draft?.id ?? newId(), visitor, atMs: clock.now(), suffix, plan, typed });
      const search = searchOf({ way: String(plan.form.index), draft: kept.id });
      // To a page that can be read again: it has all that was given, except what was typed and refused.
      return reply.redirect(`${name}${search}`, 303);
    }
    const act = addAct(plan.planned, plan.stored ?? [], world);
    const deed = await carryOut(act, { name: 'add', reason: '' }, actorOf(now), options);
    const isAdded = deed.told.length > 0 || deed.state === 'doing';
    if (isAdded) drafts.drop(id);
    const form = `add/${name}${searchOf({ way: String(index), draft: id })}`;
    return leadBack(deed, isAdded ? `connectors/${plan.form.name}` : form, reply);
  };
  for (const path of ['/add', addRoute]) {
    pages.get(path, async (request, reply) => await answer(request, reply, null));
  }
  pages.post(addRoute, { bodyLimit: maxFormBytes }, async (request, reply) =>
    answer(request, reply, formFields.parse(request.body ?? {})),
  );
}

const mostTypes = 100;

function typesPage({ definitions, parts }: LocalSettings, q: string, world: PageWorld): string {
  const text = q.trim().toLowerCase();
  const found = [...definitions.values()].filter(({ name, title, aliases }) =>
    [name, title, ...aliases].some((one) => one.toLowerCase().includes(text)),
  );
  const needs = ({ upstream, credentials: [way] }: Definition): string => {
    if (upstream === null) return parts.api === null ? 'needs a Connector Execution API' : 'through the API';
    return way === undefined || way.fields.size === 0 ? 'open to all' : `needs: ${way.title}`;
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
        A definition file describes a service. With its OpenAPI file, a low-code manifest or a definition,
        this adds the type to this list, and a connector.
        <code>docs/adding-a-connector.md</code> shows how to write one.
      </p>
      <pre class="log" tabindex="0">${world.program} connectors add --from openapi.yaml</pre>
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

function formPage(outcome: PlannedNew, draft: string, editing: EditWorld, world: PageWorld): string {
  const { form, checks, isSound = false, problems = [] } = outcome;
  const service = serviceOf(form.definition);
  const why = html`${problems.map((one) => html`<p role="alert">${printable(one)}</p>`)}`;
  const [heading, button] =
    checks === undefined
      ? [`Add ${service}`, 'Check']
      : [`${form.name} ${isSound ? 'can be read' : 'cannot be read yet'}`, 'Check again'];
  const main = html`${problems.length === 0 ? '' : callout('bad', 'Why it cannot be added', why)}
    <form
      class="list"
      method="post"
      action="${form.definition.name}${searchOf({ way: String(form.index), draft })}"
    >
      <input type="hidden" name="token" value="${world.formToken}" />
      <div class="panel">
        <div class="step">
          ${fieldsOf(form, editing)}
          <p><button class="${isSound ? '' : 'primary'}" name="do" value="check">${button}</button></p>
        </div>
      </div>
      ${checks === undefined ? '' : checkSection(checks, world)} ${addSection(outcome)}
    </form>`;
  return stepPage(service, isSound ? 3 : 1, heading, main, world);
}

function fieldsOf(form: NewForm, world: EditWorld): SafeHtml {
  const { ways, index, definition } = form;
  const tables = html`Tables start with <code>${form.name.replaceAll('-', '_')}__</code>. It cannot be changed
    later.`;
  const ids = html`<code>${world.program} connectors list</code> shows those that it has.`;
  const chips = ways.map((way, at) => {
    const current = at === index ? html`aria-current="true"` : '';
    const text = way === null ? 'Through the API' : way.title;
    return html`<a class="chip" href="${definition.name}?way=${at}" ${current}>${text}</a>`;
  });
  const sinks = [...world.settings.sinks.keys()].map((one) => [one, one] as const);
  const entities = [...definition.entities.keys()].map((name) => {
    const checked = form.entities.includes(name) ? html`checked` : '';
    return html`<li>
      <label><input type="checkbox" name="entity.${name}" value="on" ${checked} /> ${name}</label>
    </li>`;
  });
  const address = (definition.upstream?.baseUrl ?? []).map((part) =>
    part.kind === 'text' ? part.text : `{${part.name}}`,
  );
  const reads =
    ways.length === 0
      ? 'Only a Connector Execution API can read this type, and the config has no api.'
      : ways[index] === null
        ? 'The API of the config reads it.'
        : `Its address is ${address.join('')}`;
  return html`<p class="soft">${reads}</p>
    ${inputField('name', 'Name', tables, { value: form.name })}
    ${ways.length > 1 ? html`<nav class="chips" aria-label="Ways to sign in">${chips}</nav>` : ''}
    ${ways[index] === null ? inputField('id', 'Id of the connector in the API', ids, { value: form.id }) : ''}
    ${[...form.places.keys()].map((field) => credentialField(form, field, world))}
    ${sinks.length > 1 ? selectField('sink', 'Where do its rows go?', sinks, form.sink) : ''}
    <details>
      <summary>${form.entities.length} of ${counted(entities.length, 'entity', 'entities')}</summary>
      <ul>
        ${entities}
      </ul>
    </details>`;
}

function selectField(
  name: string,
  label: SafeHtml | string,
  choices: Iterable<readonly [value: string, text: string]>,
  chosen: string,
): SafeHtml {
  const options = [...choices].map(([value, text]) => {
    const selected = value === chosen ? html`selected` : '';
    return html`<option value="${value}" ${selected}>${text}</option>`;
  });
  return html`<p class="field">
    <label for="${name}">${label}</label>
    <span class="acts"
      ><select id="${name}" name="${name}">
        ${options}
      </select></span
    >
  </p>`;
}

/** One field of the credentials: typed, or where it is. A value that is found there is not yet one that works. */
function credentialField({ way, places, typed }: NewForm, field: string, world: EditWorld): SafeHtml {
  const { kind = '', name = '' } = places.get(field) ?? {};
  const { isSecret = true, isRequired = true } = way?.fields.get(field) ?? {};
  const { canType, settings } = world;
  const folder = secretsFolder(settings);
  const isTyped = typed.has(field);
  const valueOf = (of: string) => ({ value: kind === of ? name : '' });
  const label = html`<code>${field}</code>${isRequired ? '' : ' (not required)'}`;
  const once = html`${isTyped ? 'It was typed, and is kept in memory for an hour. Added, it' : 'It'} goes to a
    new file in <code>${folder ?? ''}</code> for this server alone, and is never shown.`;
  const typing = !isSecret
    ? inputField(`text.${field}`, label, 'It is written into the config as it is.', valueOf('text'))
    : canType
      ? inputField(`typed.${field}`, html`Type ${label}, once`, once, typedSecret)
      : html`<p>Where is ${label}?</p>`;
  const inFolder = html`File in <code>${folder ?? ''}</code>`;
  const files = folder === null ? [] : secretFiles(world);
  const found = isTyped || kind === 'text' || name === '' ? null : secretAt(world, kind, name, settings.file);
  const known = found?.ok
    ? `It is there, with ${counted(found.value.length, 'character')}.`
    : `Not there yet: ${printable(found?.why ?? '')}.`;
  const isOpen = found !== null || (isSecret && !canType) ? html`open` : '';
  return html`${typing}
    <details ${isOpen}>
      <summary>Or choose where it is</summary>
      ${folder === null ? '' : selectField(`file.${field}`, inFolder, files, valueOf('file').value)}
      ${inputField(`env.${field}`, 'Environment variable where this server runs', 'Its name, not the value.', valueOf('env'))}
      ${found === null ? '' : html`<p class="soft">${known}</p>`}
    </details>`;
}

const checkWords: Readonly<Record<CheckResult['state'], readonly [StateLook, string]>> = {
  ok: ['ok', 'Passed'],
  warning: ['warn late', 'Warning'],
  failed: ['bad', 'Failed'],
  skipped: ['idle', 'Left out'],
};

function checkSection(
  { results, others, atMs, tookMs }: NonNullable<PlannedNew['checks']>,
  { nowMs }: PageWorld,
) {
  const lines = (list: readonly CheckResult[]) =>
    html`<ul class="panel checks">
      ${list.map(
        ({ state: found, what, detail }) =>
          html`<li>${state(...checkWords[found])}<span>${printable(`${what}: ${detail}`)}</span></li>`,
      )}
    </ul>`;
  const more = `${counted(others.length, 'check')} of what all connectors share`;
  return html`<section aria-labelledby="result">
    <h2 id="result">Checked at ${moment(atMs, nowMs)}, in ${(tookMs / 1000).toFixed(1)} s</h2>
    ${lines(results)} ${others.length === 0 ? '' : disclosed(more, lines(others))}
  </section>`;
}

/** The lines that will be written, and the button that writes them; without it where a person has to. */
function addSection({ form, planned, lines, isSound = false }: PlannedNew): SafeHtml | '' {
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
