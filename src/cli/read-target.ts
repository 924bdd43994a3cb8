import type { JsonValue } from '../core/json.ts';
import { isDeclaredName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import { checkParams, convertParams, missingParams, fixedParamsAt } from '../definitions/params.ts';
import type { ActionName } from '../definitions/definition.ts';
import { connectorNamed } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';

/** One call as a person asks for it. Throws USAGE, naming what there is. `paramTexts`: `name=value` each. */
export function readTarget(
  settings: LocalSettings,
  action: ActionName,
  target: string,
  paramTexts: readonly string[],
  nowMs: number,
) {
  const [connectorText = '', entityText = '', ...rest] = target.split('/');
  if (entityText === '' || rest.length > 0) throw usage(`Expected <connector>/<entity>, got "${target}".`);
  const connector = connectorNamed(settings, connectorText);
  const { entities } = connector.definition;
  const entity = isDeclaredName(entityText) ? entities.get(entityText) : undefined;
  if (entity === undefined) {
    throw usage(`Expected one of the entities ${[...entities.keys()].join(', ')}, got "${entityText}".`);
  }
  const declared = entity.actions.get(action);
  if (declared === undefined) {
    throw usage(`${entity.name} has the actions ${[...entity.actions.keys()].join(', ')}, not ${action}.`);
  }
  const given = Object.fromEntries(paramTexts.map(parseParam));
  const problems = [
    ...checkParams(declared, given),
    ...missingParams(declared, { ...entity.fixedParams, ...given }).map(
      (name) => `${name}: is missing, give it with --param`,
    ),
  ];
  if (problems.length > 0) throw usage(`${action} ${target}: ${problems.join('; ')}`);
  const fixed = action === 'list' ? fixedParamsAt(entity, nowMs) : {};
  return { connector, entity, params: { ...fixed, ...convertParams(declared, given) } };
}

/** Texts become what the definition declares later; JSON stays JSON. */
export function parseParam(text: string): readonly [string, JsonValue] {
  const at = text.indexOf('=');
  if (at < 1) throw usage(`--param: expected name=value, got "${text}".`);
  const value = text.slice(at + 1);
  return [text.slice(0, at), /^[[{]/.test(value) ? parseJson(value) : value];
}

function parseJson(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text; // Not JSON after all; the parameter's check says what was expected.
  }
}
