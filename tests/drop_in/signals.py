"""A made-up signal in which a voice detector finds speech."""
import numpy as np


def signal(rate=16000, seconds=6):
    """Vowels by the second: harmonics of a gliding pitch under three formants; noise, and pauses between them."""
    t = np.arange(rate * seconds) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    vowels = [(700, 1200, 2600), (300, 2300, 3000), (400, 800, 2400)]
    wave = np.zeros_like(t)
    for index, formants in enumerate(vowels):
        spoken = ((t % 2) < 1.2) & ((t * 5).astype(int) % 3 == index)
        for harmonic in range(1, 30):
            gain = sum(np.exp(-((harmonic * pitch - formant) / 120) ** 2) for formant in formants) + 0.02
            wave += spoken * gain * np.sin(harmonic * phase)
    noise = np.random.default_rng(0).standard_normal(len(t)) * 0.003
    return (0.2 * wave / np.abs(wave).max() + noise).astype(np.float32)
