import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Operation } from './operation.ts';
import type { EntityPlan } from './plan-entity.ts';

/** How an operation is sent to the service. `declared`: its parameters in the definition; null: all required ones. */
export function writeRequest(
  operation: Operation,
  declared: Readonly<Record<string, JsonObject>> | null,
  plan: EntityPlan | null,
): JsonObject {
  const { method, path, body } = operation;
  const isPost = method === 'POST';
  const ofPaging = plan === null ? new Set<string>() : sentByPaging(plan);
  const rules = operation.params.flatMap((param): readonly (readonly [string, JsonObject])[] => {
    const { name, sent, place, at, type, list, isRequired } = param;
    const isDeclared = declared === null ? isRequired && place !== 'header' : Object.hasOwn(declared, name);
    if (!isDeclared || ofPaging.has(name)) return [];
    const rule: Record<string, JsonValue> = {};
    if (sent !== name && place !== 'body') rule['as'] = sent;
    if (place === 'header') rule['in'] = 'header';
    if (place === 'query' && isPost) rule['in'] = 'query';
    if (place === 'body' && at !== null) rule['at'] = at;
    if (place === 'query' && type === 'array') rule['list'] = list;
    return Object.keys(rule).length === 0 ? [] : [[name, rule]];
  });
  return {
    ...(isPost ? { method, safe: true } : {}),
    path,
    ...(Object.keys(body.fixed).length === 0 ? {} : { body: body.fixed }),
    ...(rules.length === 0 ? {} : { params: Object.fromEntries(rules) }),
  };
}

/** Parameters that the paging of the definition sends in another form. */
function sentByPaging({ paging }: EntityPlan): ReadonlySet<string> {
  return new Set(paging.kind === 'address' && paging.param !== null ? [paging.param.name] : []);
}
