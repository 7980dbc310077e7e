import pg from 'pg';

const INT8 = 20;
const INT8_ARRAY = 1016;
const DATE = 1082;

/**
 * How column values arrive in TypeScript, where node-postgres' own choice would not do: bigint as number, refused beyond
 * 2^53 rather than rounded; date as the text it is, since a Date would shift it by the zone. Numeric stays text (money is exact),
 * timestamptz becomes a Date, json is parsed.
 */
export const valueTypes: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    const standard = pg.types.getTypeParser(oid, format);
    return (format === 'binary' ? undefined : ownParser(oid, standard)) ?? standard;
  },
};

function ownParser(oid: number, standard: (value: string) => unknown): ((value: string) => unknown) | undefined {
  if (oid === INT8) return toSafeInteger;
  if (oid === INT8_ARRAY) return (value) => (standard(value) as (string | null)[]).map(toSafeIntegerOrNull);
  return oid === DATE ? (value) => value : undefined;
}

function toSafeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} is beyond what a number holds exactly`);
  return value;
}

function toSafeIntegerOrNull(text: string | null): number | null {
  return text === null ? null : toSafeInteger(text);
}
