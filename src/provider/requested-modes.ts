import Big from 'big.js';
import { largest, type ModelPrice } from './model-price.ts';
import { Unbounded } from './unbounded.ts';

const ONE = new Big(1);
/** Tiers a request may be given without asking for them; `batch` has an endpoint of its own. */
const TIERS = ['priority', 'scale', 'flex'];

/**
 * The largest factor that the tier, speed and place asked for can have. What is left to the provider, the project or the workspace (nothing
 * said, or `auto`) may be any the price lists; what is asked for may also be served the standard way.
 */
export function requestedModes(price: ModelPrice, request: Record<string, unknown>): Big {
  const tier = factorOf(price, 'service_tier', request.service_tier, ['standard_only', 'default', 'standard'], TIERS);
  const speed = factorOf(price, 'speed', request.speed, ['standard'], []);
  const geo = factorOf(price, 'inference_geo', request.inference_geo, ['global'], ['us']);
  return tier.times(speed).times(geo);
}

function factorOf(price: ModelPrice, field: string, asked: unknown, standard: string[], ifLeftOpen: string[]): Big {
  if (asked === undefined || asked === null || asked === 'auto') {
    return largest([ONE, ...ifLeftOpen.flatMap((mode) => price.factors.get(mode) ?? [])]);
  }
  if (standard.includes(String(asked))) return ONE;
  const factor = price.factors.get(String(asked));
  if (factor === undefined)
    throw new Unbounded(
      `${field} ${JSON.stringify(asked)} of model ${price.model} has no factor; give it one in the price's "factors" (madrugada price load)`,
    );
  return largest([ONE, factor]);
}
