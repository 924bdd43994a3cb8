import type { JsonObject } from '../../core/json.ts';
import { ProblemsError } from '../../core/problems.ts';
import { passing, totalsOf } from './import-service.ts';
import { readManifest, type Manifest } from './manifest-file.ts';
import type { Setting } from './manifest-settings.ts';
import { judgeStreams, type StreamPlan } from './manifest-streams.ts';
import { fixedTexts } from './manifest-request.ts';
import { oneLine } from './schemas.ts';
import { publicNote, uuidOf } from './service-file.ts';
import {
  commonUpstream,
  credentialFields,
  guessesOf,
  headOf,
  stated,
  writeYaml,
} from './write-definition.ts';

/** Makes a direct definition of a manifest. */
export function importManifest(manifest: Manifest) {
  const { judged, write } = draftManifest(manifest);
  const { outcomes, definition } = passing(judged, write);
  const plans = [...outcomes.values()].flatMap((one) => (one.kind === 'converted' ? [one.plan] : []));
  return {
    mode: 'direct',
    title: titleOf(manifest),
    ways: signedPlan(plans)?.signing.ways ?? [],
    baseUrl: plans[0]?.request.baseUrl ?? null,
    outcomes,
    definition,
  } as const;
}

/** The streams by entity, and the text of a definition of some of them. */
export function draftManifest(manifest: Manifest) {
  return {
    judged: judgeStreams(manifest),
    write: (plans: readonly StreamPlan[]) => writeManifest(manifest, plans),
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

/** A plan that is signed: all have the same sign-in and address. */
function signedPlan(plans: readonly StreamPlan[]): StreamPlan | undefined {
  return plans.find(({ signing }) => signing.id !== 'none');
}

function writeManifest(manifest: Manifest, plans: readonly StreamPlan[]) {
  const { name, version, sha256, file } = manifest;
  const title = titleOf(manifest);
  const main = signedPlan(plans) ?? plans[0];
  if (main === undefined) throw new TypeError('expected at least one entity');
  const { signing, request } = main;
  const ways = signing.ways.filter(({ auth }) => auth !== null);
  const todos = plans.flatMap(({ open }) => open.map(({ at, text }) => ({ at, text: `TODO ${text}` })));
  const comments = [...plans.flatMap((plan) => plan.comments), ...todos, ...guessesOf(ways)];
  const needed = new Map<string, Setting>();
  for (const setting of [...plans.flatMap((plan) => plan.request.used), ...signing.used]) {
    const isRequired = setting.isRequired || needed.get(setting.name)?.isRequired === true;
    needed.set(setting.name, { ...setting, isRequired });
  }
  const all = [...needed.values()];
  const isOfSignIn = ({ name: setting }: Setting): boolean =>
    ways.some(({ fields }) => Object.hasOwn(fields, setting));
  // Requests send fields of one way to sign in too: every way needs them.
  const shared = all.filter(isOfSignIn).map((one) => [one.name, { secret: one.isSecret, required: true }]);
  const settings = all.filter((one) => !isOfSignIn(one)).map((one) => [one.name, writeSetting(one)]);
  const data = {
    name,
    title,
    id: uuidOf(`manifest ${name}`),
    rateLimit: { requestsPerSecond: 2, concurrency: 2 },
    credentials: ways.map((way) => ({
      title: way.title,
      fields: credentialFields({ ...Object.fromEntries(shared), ...way.fields }),
    })),
    ...stated({ settings: Object.fromEntries(settings) as JsonObject }),
    entities: Object.fromEntries(plans.map((plan) => [plan.entity, plan.write()])),
    upstream: {
      baseUrl: request.baseUrl,
      ...stated({
        host: Object.assign({}, ...plans.map((plan) => plan.request.host), signing.host) as JsonObject,
      }),
      auth: Object.fromEntries(ways.map((way) => [way.title, way.auth])),
      check: checkOf(manifest, plans),
      ...commonUpstream,
      entities: Object.fromEntries(plans.map((plan) => [plan.entity, plan.upstream])),
    },
  };
  const head = headOf({ name, version, sha256, title, file, licenseNote: publicNote }, 'direct');
  const lines = comments.map(({ at, text }) => ({ at, text: oneLine(text, 300) }));
  return { name, text: writeYaml(data, lines, head) };
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
