import type { JsonObject, JsonValue } from '../../core/json.ts';
import { ProblemsError } from '../../core/problems.ts';
import { passing, totalsOf } from './import-service.ts';
import { missing, parts } from './manifest-language.ts';
import { readManifest, type Component, type Manifest } from './manifest-file.ts';
import { judgeStreams, type StreamOutcome, type StreamPlan } from './manifest-streams.ts';
import { openSettings, type Setting } from './manifest-values.ts';
import { fixedTexts } from './manifest-paging.ts';
import { listIn, oneLine, plainText } from './schemas.ts';
import { publicNote, uuidOf } from './service-file.ts';
import { headOf, stated, writeYaml, type Comment } from './write-definition.ts';

/** Makes a direct definition of a manifest. Entities that need parts of the format that are missing are refused. */
export function importManifest(manifest: Manifest) {
  const { judged, write } = draftManifest(manifest);
  const outcomes = readable(judged);
  const plans = [...outcomes.values()].flatMap((one) => (one.kind === 'converted' ? [one.plan] : []));
  return {
    mode: 'direct',
    title: titleOf(manifest),
    ways: plans.find(({ signing }) => signing.id !== 'none')?.signing.ways ?? [],
    baseUrl: plans[0]?.baseUrl ?? null,
    ...passing(outcomes, write),
  } as const;
}

/** The streams by entity, and the text of a definition of some of them. */
export function draftManifest(manifest: Manifest) {
  const settings = openSettings(manifest.spec, computedPlaces(manifest.top));
  const judged = judgeStreams(manifest, settings);
  return {
    judged,
    write: (plans: readonly StreamPlan[]) => writeManifest(manifest, titleOf(manifest), plans),
  };
}

/** The results of importing each of these files, and the reasons of refusals, the most frequent first. */
export function tableOfManifests(files: readonly string[]) {
  const counts = new Map<string, number>();
  const manifests = files.map((file) => {
    const none = { file, streams: 0, converted: 0, open: 0, refused: 0 };
    try {
      const imported = importManifest(readManifest(file));
      for (const outcome of imported.outcomes.values()) {
        if (outcome.kind === 'converted') continue;
        const why = reasonOf(outcome.why);
        counts.set(why, (counts.get(why) ?? 0) + 1);
      }
      const { entities, converted, open, refused } = totalsOf(imported);
      return { ...none, streams: entities, converted, open, refused, problem: null };
    } catch (error) {
      if (!(error instanceof ProblemsError)) throw error;
      const [first] = error.problems;
      return { ...none, problem: oneLine(`line ${first?.line ?? '?'}: ${first?.message}`, 200) };
    }
  });
  const reasons = [...counts].map(([why, streams]) => ({ why, streams }));
  return { manifests, reasons: reasons.toSorted((left, right) => right.streams - left.streams) };
}

/** The reason without the names and lines that differ from file to file. */
function reasonOf(why: string): string {
  const type = /\((\w+), line [^)]*\)$/.exec(why)?.[1];
  if (why.startsWith('its parent ')) return 'its parent cannot be read';
  const kind = why
    .replace(/ \(.*$/s, '')
    .replace(/: .*$/s, '')
    .replace(/ line .*$/s, '');
  return type === undefined ? kind : `${kind} (${type.startsWith('Custom') ? 'custom code' : type})`;
}

function titleOf({ name }: Manifest): string {
  return name
    .split('-')
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join(' ');
}

/** Values of the connector that the file itself computes or moves. */
function computedPlaces(top: Component): ReadonlySet<string> {
  const rules = top.part('spec')?.part('config_normalization_rules') ?? null;
  const all = rules?.parts('transformations') ?? [];
  const fields = all.flatMap((one) => one.parts('fields').map((field) => listIn(field.get('path'))));
  return new Set(fields.map((path) => path.map(plainText).join('.')));
}

/** Refuses entities that need a part of the format that is not there, and those below a refused one. */
function readable(judged: ReadonlyMap<string, StreamOutcome>): ReadonlyMap<string, StreamOutcome> {
  const outcomes = new Map<string, StreamOutcome>();
  for (const [entity, outcome] of judged) {
    if (outcome.kind === 'refused') {
      outcomes.set(entity, outcome);
      continue;
    }
    const lacks = [...outcome.plan.needs].filter((need) => missing.has(need)).map((need) => parts[need]);
    const above = outcome.plan.parents.find((parent) => outcomes.get(parent.entity)?.kind !== 'converted');
    const why =
      lacks.length > 0
        ? `it needs ${lacks.join(', ')}: this version has no such part of a definition`
        : `its parent ${above?.entity} cannot be read`;
    outcomes.set(entity, lacks.length > 0 || above !== undefined ? { kind: 'refused', why } : outcome);
  }
  return outcomes;
}

function writeManifest(manifest: Manifest, title: string, plans: readonly StreamPlan[]) {
  const { name, version, sha256, file } = manifest;
  const comments: Comment[] = plans.flatMap((plan) => plan.comments);
  for (const { at, text } of plans.flatMap(({ open }) => open)) {
    comments.push({ at, text: oneLine(`TODO ${text}`, 300) });
  }
  const { signing, baseUrl } = mainPlan(plans);
  const used = signing.ways.filter(({ auth }) => auth !== null);
  for (const { title: way, guesses } of used) {
    if (guesses.length > 0) {
      comments.push({ at: ['upstream', 'auth', way], text: `${guesses.join(', ')} # guessed` });
    }
  }
  const needed = new Map<string, Setting>();
  for (const setting of [...plans.flatMap((plan) => plan.used), ...signing.used]) {
    const known = needed.get(setting.name);
    needed.set(setting.name, { ...setting, isRequired: setting.isRequired || known?.isRequired === true });
  }
  const ofSignIn = new Set(used.flatMap(({ fields }) => Object.keys(fields)));
  const shared = [...needed.values()].filter((setting) => ofSignIn.has(setting.name));
  const settings = [...needed.values()].filter((setting) => !ofSignIn.has(setting.name));
  const data: Record<string, JsonValue> = {
    name,
    title,
    id: uuidOf(`manifest ${name}`),
    rateLimit: { requestsPerSecond: 2, concurrency: 2 },
    credentials: used.map((way) => ({ title: way.title, fields: credentialFields(way.fields, shared) })),
    ...stated({
      settings: Object.fromEntries(settings.map((setting) => [setting.name, writeSetting(setting)])),
    }),
    entities: Object.fromEntries(plans.map((plan) => [plan.entity, plan.write()])),
    upstream: {
      baseUrl,
      ...stated({ host: Object.assign({}, ...plans.map((plan) => plan.host), signing.host) as JsonObject }),
      auth: Object.fromEntries(used.map((way) => [way.title, way.auth])),
      check: checkOf(manifest, plans),
      limits: { concurrency: 2, requestsPerSecond: 2, timeoutMs: 60_000, maxBodyBytes: 67_108_864 },
      message: ['message', 'error.message', 'error_description', 'error', 'errors.0.message', 'detail'],
      entities: Object.fromEntries(plans.map((plan) => [plan.entity, plan.upstream])),
    },
  };
  const head = headOf({ name, version, sha256, title, file, licenseNote: publicNote }, 'direct');
  return { name, text: writeYaml(data, comments, head) };
}

/** A plan that is signed; all have the same address. */
function mainPlan(plans: readonly StreamPlan[]): StreamPlan {
  const plan = plans.find(({ signing }) => signing.id !== 'none') ?? plans[0];
  if (plan === undefined) throw new TypeError('expected at least one entity');
  return plan;
}

/** `shared`: fields of one way to sign in that requests send too, so that every way needs them. */
function credentialFields(
  fields: Readonly<Record<string, { readonly secret: boolean; readonly required: boolean }>>,
  shared: readonly Setting[],
): JsonObject {
  const all = {
    ...Object.fromEntries(shared.map(({ name, isSecret }) => [name, { secret: isSecret, required: true }])),
    ...fields,
  };
  return Object.fromEntries(
    Object.entries(all).map(([name, { secret, required }]) => [
      name,
      { ...(secret ? {} : { secret }), ...(required ? {} : { required }) },
    ]),
  );
}

function writeSetting({ title, isSecret, isRequired, fallback, values }: Setting): JsonObject {
  return {
    title,
    ...(isSecret ? { secret: true } : {}),
    ...(isRequired ? {} : { required: false }),
    ...stated({ default: fallback ?? undefined, values }),
  };
}

/** The listing that the file checks a connector by, or the first that needs no parent. */
function checkOf({ top }: Manifest, plans: readonly StreamPlan[]): JsonObject {
  const check = top.part('check');
  const preferred = check === null ? [] : fixedTexts(check, 'stream_names');
  const roots = plans.filter((plan) => plan.check !== null);
  const plan = roots.find(({ entity }) => preferred.includes(entity)) ?? roots[0];
  return plan?.check ?? { path: '/' };
}
